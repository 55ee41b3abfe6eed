#include "api/service.h"

#include <algorithm>

#include "api/error.h"

namespace quern {
namespace {

size_t longest_token(const Tokenizer& tokenizer) {
  size_t longest = 0;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    longest = std::max(longest, tokenizer.token_bytes(id).size());
  }
  return longest;
}

}  // namespace

std::shared_ptr<ServedModel> Service::model() const {
  const std::lock_guard lock(mutex_);
  return model_;
}

std::shared_ptr<ServedModel> Service::ready() const {
  auto served = model();
  if (served) return served;
  throw ApiError("the model is loading", {.status = 503,
                                          .type = "server_error",
                                          .code = "model_loading",
                                          .retry_after_s = 2});
}

void Service::serve(std::shared_ptr<ServedModel> model) {
  if (model) model->longest_token = longest_token(model->tokenizer);
  const std::lock_guard lock(mutex_);
  std::swap(model_, model);
}

}  // namespace quern
