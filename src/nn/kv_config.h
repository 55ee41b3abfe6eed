// kv_config.json: the codecs of a model's layers.
//   [{"layer_idx": 0, "bits": 8, "group_size": 64},
//    {"layer_idx": 1, "scheme": "turbo:k8v3"}]
// bits: 4, 8, or 16 for raw; group_size: 32 or 64 (the default); scheme: as
// parse_kv_codec takes it. Other fields are ignored.
#pragma once

#include <span>
#include <string>

#include "base/error.h"
#include "quant/kv_codec.h"

namespace quern {

// Layers that are not listed are raw. `head_dims` are those of the model's
// layers; `where` names the text in reasons.
Result<KvScheme> parse_kv_config(std::string_view text,
                                 const std::string& where,
                                 std::span<const int> head_dims);

}  // namespace quern
