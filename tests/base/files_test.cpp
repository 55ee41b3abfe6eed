#include "base/files.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <future>

#include "base/temp_dir.h"

namespace quern::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::string text_of(const Path& path) { return read_text(path).or_throw(); }

Path make_fifo(const TempDir& dir) {
  const Path path = dir.path() / "fifo";
  EXPECT_EQ(::mkfifo(path.c_str(), 0600), 0);
  return path;
}

size_t files_in(const TempDir& dir) {
  return std::distance(fs::directory_iterator(dir.path()), {});
}

TEST(WriteFile, KeepsTheMode) {
  const TempDir dir;
  const Path file = dir.write("f", "old");
  ASSERT_EQ(::chmod(file.c_str(), 0600), 0);
  write_file(file, "new").or_throw();
  EXPECT_EQ(text_of(file), "new");
  EXPECT_EQ(fs::status(file).permissions(), fs::perms(0600));
  EXPECT_EQ(files_in(dir), 1);
}

TEST(WriteFile, FollowsLinks) {
  const TempDir dir;
  const Path file = dir.write("to/file", "old");
  const Path link = dir.path() / "link", second = dir.path() / "second";
  fs::create_symlink("to/file", link);
  fs::create_symlink(link, second);
  write_file(second, "new").or_throw();
  EXPECT_EQ(text_of(file), "new");
  EXPECT_TRUE(fs::is_symlink(link) && fs::is_symlink(second));
  fs::remove(file);
  write_file(second, "made").or_throw();
  EXPECT_EQ(text_of(file), "made");
  EXPECT_TRUE(fs::is_symlink(link) && fs::is_symlink(second));
}

TEST(WriteFile, WritesIntoAPipe) {
  const TempDir dir;
  const Path fifo = make_fifo(dir);
  auto read = std::async(std::launch::async,
                         [&] { return read_input(fifo).or_throw(); });
  write_file(fifo, "through").or_throw();
  EXPECT_EQ(read.get(), "through");
  EXPECT_TRUE(fs::is_fifo(fifo));
}

TEST(WriteFile, AFailureLeavesNothingBehind) {
  const TempDir dir;
  const Path loop = dir.path() / "loop";
  fs::create_symlink(loop, loop);
  for (const Path& path : {dir.path(), loop, dir.path() / "no" / "file"}) {
    const Status status = write_file(path, "x");
    ASSERT_FALSE(status.ok()) << path;
    EXPECT_THAT(status.reason(),
                HasSubstr("cannot write " + path.string() + ": "));
  }
  EXPECT_TRUE(fs::is_symlink(loop));
  EXPECT_EQ(files_in(dir), 1);
}

TEST(ReadText, RefusesWhatIsNoFile) {
  const TempDir dir;
  const Path fifo = make_fifo(dir);
  EXPECT_THAT(read_text(fifo).reason(), HasSubstr("not a regular file"));
  EXPECT_THAT(MappedFile::open(fifo).reason(), HasSubstr("not a regular file"));
  EXPECT_THAT(read_text("/dev/zero").reason(), HasSubstr("not a regular file"));
  EXPECT_THAT(read_text(dir.path()).reason(), HasSubstr("is a directory"));
  EXPECT_THAT(read_text(dir.path() / "no").reason(), HasSubstr("No such file"));
}

TEST(ReadText, TheLimitIsTheLastSizeThatIsRead) {
  const TempDir dir;
  const Path file = dir.write("f", "12345");
  EXPECT_EQ(read_text(file, 5).or_throw(), "12345");
  EXPECT_THAT(read_text(file, 4).reason(),
              HasSubstr("has 5 bytes, the limit is 4"));
}

TEST(ReadInput, ReadsStreamsUpToTheLimit) {
  const TempDir dir;
  EXPECT_EQ(read_input(dir.write("f", "text")).or_throw(), "text");
  EXPECT_EQ(read_input("/dev/null").or_throw(), "");
  EXPECT_THAT(read_input("/dev/zero", 1 << 20).reason(),
              HasSubstr("/dev/zero has more than 1048576 bytes"));
}

}  // namespace
}  // namespace quern::test
