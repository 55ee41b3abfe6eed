#include "files/npy.h"

#include <gtest/gtest.h>

#include "base/temp_dir.h"

namespace quern {
namespace {

// The file that write_npy makes, and the one that NumPy made of the same.
void expect_as_numpy(const char* golden, std::vector<float> values,
                     std::vector<int64_t> shape) {
  test::TempDir dir;
  const Path path = dir.path() / "out.npy";
  const auto status = write_npy(path, values, shape);
  ASSERT_TRUE(status) << status.reason();
  const auto ours = read_text(path);
  const auto theirs =
      read_text(Path(QUERN_TEST_DIR) / "files" / "goldens" / golden);
  ASSERT_TRUE(theirs) << theirs.reason();
  EXPECT_EQ(*ours, *theirs);
}

TEST(Npy, SameBytesAsNumpy) {
  expect_as_numpy("matrix.npy", {0.5f, -1.25f, 3e-20f, 4, 5e20f, -0.0f},
                  {2, 3});
  expect_as_numpy("vector.npy", {0, 1, 2, 3, 4}, {5});
  expect_as_numpy("scalar.npy", {7.5f}, {});
}

TEST(Npy, DataStartsAtAMultipleOf64) {
  test::TempDir dir;
  const Path path = dir.path() / "out.npy";
  for (int64_t rank = 0; rank < 30; ++rank) {
    const std::vector<int64_t> shape(size_t(rank), 1);
    ASSERT_TRUE(write_npy(path, std::vector<float>{1}, shape));
    EXPECT_EQ(std::filesystem::file_size(path) % 64, 4u) << rank;
  }
}

TEST(Npy, ShapeMustFit) {
  EXPECT_THROW(
      write_npy("unused.npy", std::vector<float>(5), {2, 3}).or_throw(), Error);
}

TEST(Npy, UnwritablePathIsAReason) {
  const auto status =
      write_npy("/nonexistent/out.npy", std::vector<float>(1), {1});
  ASSERT_FALSE(status);
  EXPECT_NE(status.reason().find("/nonexistent/out.npy"), std::string::npos);
}

}  // namespace
}  // namespace quern
