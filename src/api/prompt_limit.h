// Texts that are too long whatever their tokens: tokenising takes seconds and
// gigabytes where a text has tens of megabytes.
#pragma once

#include <string_view>

#include "api/service.h"

namespace quern {

// Of a text that is tokenised for its own sake.
inline constexpr size_t kMaxPlainText = 4u << 20;

// Throws the ApiError of a prompt that is too long if a text has more bytes
// than a context of the longest tokens.
void refuse_endless(std::string_view text, const ServedModel& served);

}  // namespace quern
