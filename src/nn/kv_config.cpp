#include "nn/kv_config.h"

#include "nn/config.h"

namespace quern {
namespace {

// A field that is there, and has to be one of `allowed`.
int one_of(const Config& entry, const char* key,
           std::initializer_list<int> allowed) {
  const Json& value = *entry.find(key);
  for (int number : allowed) {
    if (value == number) return number;
  }
  entry.refuse(fmt::format("{} must be one of {}, got {}", key,
                           fmt::join(allowed, ", "), brief(value)));
}

// What `call` gives; what it refuses is a fault of the entry.
template <class Call>
auto checked(const Config& entry, Call call) {
  try {
    return call();
  } catch (const Error& error) {
    const std::string_view what = error.what();  // "[place] reason"
    entry.refuse(std::string(what.substr(what.find(']') + 2)));
  }
}

KvCodec codec_of(const Config& entry) {
  if (const auto scheme = entry.text_if("scheme")) {
    for (const char* key : {"bits", "group_size"}) {
      if (entry.find(key)) {
        entry.refuse(fmt::format("a scheme leaves no place for {}", key));
      }
    }
    return checked(entry, [&] { return parse_kv_codec(*scheme); });
  }
  if (!entry.find("bits")) entry.refuse("expected bits or a scheme");
  const int bits = one_of(entry, "bits", {4, 8, 16});
  if (bits == 16) return raw_kv();  // of any group
  const bool grouped = entry.find("group_size");
  return affine_kv(bits, grouped ? one_of(entry, "group_size", {32, 64}) : 64);
}

void add_layer(const Config& entry, std::span<const int> head_dims,
               KvScheme& scheme) {
  const int layer = entry.integer("layer_idx", 0, int(head_dims.size()) - 1);
  const KvCodec codec = codec_of(entry);
  checked(entry, [&] { codec.require(head_dims[layer]); });
  if (!scheme.layers.try_emplace(layer, codec).second) {
    entry.refuse(fmt::format("layer_idx {} has an entry already", layer));
  }
}

}  // namespace

Result<KvScheme> parse_kv_config(std::string_view text,
                                 const std::string& where,
                                 std::span<const int> head_dims) {
  const auto list = parse_json(text, where);
  if (!list) return list.failure();
  if (!list->is_array()) {
    return failure("{}: expected a list of layers, got {}", where,
                   brief(*list));
  }
  KvScheme scheme;
  try {
    for (size_t i = 0; i < list->size(); i++) {
      add_layer(Config((*list)[i], fmt::format("{}[{}]", where, i)), head_dims,
                scheme);
    }
  } catch (const Error& error) {
    return failure("{}", error.what());
  }
  return scheme;
}

}  // namespace quern
