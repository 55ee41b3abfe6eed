#include "cli/kv_options.h"

#include "base/log.h"

namespace quern {

KvScheme KvOptions::scheme(Precision precision) const {
  const KvScheme scheme{codec, ring_same ? codec : raw_kv()};
  return scheme.with(kv_number(precision));
}

void add_kv_options(CLI::App& app, KvOptions& options) {
  const auto set_codec = [&options](const std::string& text) {
    try {
      options.codec = parse_kv_codec(text);
    } catch (const Error& error) {
      const std::string_view what = error.what();  // "[place] reason"
      throw UsageError(
          fmt::format("--kv: {}", what.substr(what.find(']') + 2)));
    }
  };
  add_value(app, "--kv", set_codec,
            "What keys and values are kept in: raw (default), 8 or 4 (bits, "
            "groups of 64), turbo (k8v3) or turbo:k#v# (keys 2, 4, 5, 8 bits, "
            "values 2, 3, 4, 5, 8)")
      ->type_name("SCHEME");
  const auto set_ring = [&options](const std::string& text) {
    if (text != "raw" && text != "same") {
      throw UsageError("--kv-ring: expected raw or same, got " +
                       in_quotes(text));
    }
    options.ring_same = text == "same";
  };
  add_value(app, "--kv-ring", set_ring,
            "Layers with a sliding window: raw (default) or same (as --kv)")
      ->type_name("WORD");
}

void warn_of_coarse_keys(const KvScheme& scheme, const TextModel& model) {
  for (const KvCodec& codec : {scheme.full, scheme.ring}) {
    if (codec.raw() || codec.key_bits == 8 || !model.facts().key_biases) {
      continue;
    }
    log(LogLevel::warning,
        fmt::format("--kv {}: this model adds biases to its keys, which {} "
                    "bits keep poorly; keys of 8 bits are safe",
                    codec.name(), codec.key_bits));
    return;
  }
}

}  // namespace quern
