#include "api/service.h"

#include "api/error.h"

namespace quern {

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
  const std::lock_guard lock(mutex_);
  std::swap(model_, model);
}

}  // namespace quern
