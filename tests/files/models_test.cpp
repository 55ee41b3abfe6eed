// Real models, against what gguf-py and safetensors read from them. They are
// in QUERN_MODELS (default ~/.cache/quern/models), put there by set-up.
#include <gtest/gtest.h>

#include <cstdlib>

#include "files/gguf.h"
#include "files/golden.h"
#include "files/safetensors.h"

namespace quern {
namespace {

Path models() {
  const char* folder = std::getenv("QUERN_MODELS");
  if (folder && *folder) return folder;
  return Path(std::getenv("HOME")) / ".cache" / "quern" / "models";
}

class GgufModel : public testing::TestWithParam<const char*> {};

TEST_P(GgufModel, ReadsAsGgufPy) {
  const std::string name = GetParam();
  const auto file = Gguf::open(models() / name);
  ASSERT_TRUE(file) << file.reason();
  const Json golden = test::golden_json(name + ".json");
  test::expect_tensors((*file)->tensors(), golden["tensors"]);
  test::expect_metadata(**file, golden["metadata"]);
  for (const auto& [tensor, view] : (*file)->tensors()) {
    EXPECT_TRUE(require_supported(view)) << tensor;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Files, GgufModel,
    testing::Values("SmolLM2-135M-Instruct.Q4_1.gguf",
                    "gemma-3-270m.Q4_K_M.gguf",
                    "Qwen2.5-Coder-0.5B-Instruct.Q4_K_M.gguf"));

TEST(SafetensorsModel, ReadsAsTheReference) {
  const std::string name = "all-MiniLM-L6-v2";
  const auto tensors = open_safetensors_dir(models() / name);
  ASSERT_TRUE(tensors) << tensors.reason();
  test::expect_tensors(*tensors, test::golden_json(name + ".json")["tensors"]);
}

}  // namespace
}  // namespace quern
