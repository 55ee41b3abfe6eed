#include "engine/row_checks.h"
#include "engine/tiny_model.h"

namespace quern::test {
namespace {

class Rows : public testing::TestWithParam<
                 std::tuple<const char*, const char*, Precision>> {
 protected:
  std::unique_ptr<TextModel> model_ =
      tiny_model(std::get<0>(GetParam()), std::get<1>(GetParam()));
  Precision precision_ = std::get<2>(GetParam());
};

TEST_P(Rows, SameBitsHoweverThePromptIsCut) {
  check_chunks(*model_, 600, {1, 64, 100, 256, 599}, precision_);
}

TEST_P(Rows, SameBitsInAnyCompany) {
  check_company(*model_, 90, {2, 5, 16}, 3, precision_);
}

INSTANTIATE_TEST_SUITE_P(
    Tiny, Rows,
    testing::Combine(testing::Values("llama", "gemma3_text"),
                     testing::Values("F32", "BF16"),
                     testing::Values(Precision::fast, Precision::exact)));

}  // namespace
}  // namespace quern::test
