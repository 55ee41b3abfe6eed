#include "cli/kv_options.h"

#include <algorithm>

#include "base/files.h"
#include "base/log.h"
#include "nn/kv_config.h"

namespace quern {
namespace {

constexpr size_t kMostConfig = 1 << 20;  // bytes

void set_scheme(std::string_view text, KvOptions& options) {
  if (text == "config") {
    options.config.emplace();
  } else if (text.starts_with("config:")) {
    options.config = text.substr(text.find(':') + 1);
    if (options.config->empty()) {
      throw UsageError("--kv: expected a file after config:");
    }
  } else {
    options.codec = codec_option("--kv", text, "config[:FILE]");
  }
}

KvScheme read_config(const Path& file, const TextModel& model) {
  const std::string text = read_text(file, kMostConfig).or_throw();
  return parse_kv_config(text, file.string(), model.facts().head_dims)
      .or_throw();
}

// A model's own kv_config.json: in its directory, or beside its file.
Path config_of(const Path& model) {
  std::error_code error;
  const bool is_folder = std::filesystem::is_directory(model, error);
  return (is_folder ? model : model.parent_path()) / "kv_config.json";
}

// A bias that keys get makes them large, so that codes of few bits are coarse.
void warn_of_coarse_keys(const KvScheme& scheme, const TextModel& model) {
  if (!model.facts().key_biases) return;
  const Row row = model.make_row(scheme);
  int fewest = 16, coarse = 0;  // bits, layers
  for (int i = 0; i < row.layers(); i++) {
    const auto* cache = dynamic_cast<const Cache*>(&row.layer(i));
    if (!cache || cache->shape().format.raw()) continue;
    const int bits = cache->shape().format.key_bits;
    fewest = std::min(fewest, bits);
    coarse += bits < 8;
  }
  const char* why = "this model adds biases to its keys";
  if (fewest < 8) {
    log(LogLevel::warning,
        fmt::format("--kv {}: {}, and {} bits lose much of them (in {} of {} "
                    "layers): 8 bits cost some quality, raw none",
                    scheme.name(), why, fewest, coarse, row.layers()));
  } else if (fewest == 8) {
    log(LogLevel::info,
        fmt::format("--kv {}: {}, where 8 bits cost some quality, raw none",
                    scheme.name(), why));
  }
}

}  // namespace

KvCodec codec_option(std::string_view flag, std::string_view text,
                     std::string_view others) {
  try {
    return parse_kv_codec(text, others);
  } catch (const Error& error) {
    const std::string_view what = error.what();  // "[place] reason"
    throw UsageError(
        fmt::format("{}: {}", flag, what.substr(what.find(']') + 2)));
  }
}

void add_kv_options(CLI::App& app, KvOptions& options) {
  add_value(
      app, "--kv",
      [&options](const std::string& text) { set_scheme(text, options); },
      "What keys and values are kept in: raw (default), 8 or 4 (bits, groups "
      "of 64), turbo (k8v3) or turbo:k#v# (keys 2, 4, 5, 8 bits, values 2, 3, "
      "4, 5, 8), config (each layer as the model's kv_config.json says) or "
      "config:FILE")
      ->type_name("SCHEME");
  const auto set_ring = [&options](const std::string& text) {
    if (text != "raw" && text != "same") {
      throw UsageError("--kv-ring: expected raw or same, got " +
                       in_quotes(text));
    }
    options.ring_same = text == "same";
  };
  add_value(app, "--kv-ring", set_ring,
            "Layers with a sliding window: raw (default) or same (as --kv); "
            "config names them itself")
      ->type_name("WORD");
}

KvScheme kv_scheme(const KvOptions& options, const TextModel& model,
                   const Path& path, Precision precision) {
  KvScheme scheme(options.codec, options.ring_same ? options.codec : raw_kv());
  if (const auto& config = options.config) {
    scheme = read_config(config->empty() ? config_of(path) : *config, model);
  }
  scheme = scheme.with(kv_number(precision));
  warn_of_coarse_keys(scheme, model);
  return scheme;
}

}  // namespace quern
