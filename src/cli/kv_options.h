// --kv and --kv-ring: what keys and values are kept in.
#pragma once

#include <optional>

#include "cli/options.h"
#include "models/model.h"

namespace quern {

struct KvOptions {
  KvCodec codec;
  // The kv_config.json to take in the place of codec; empty: the model's.
  std::optional<Path> config;
  bool ring_same = false;
};

// The codec that the value of `flag` names. Throws UsageError that begins with
// the flag; `others` as for parse_kv_codec.
KvCodec codec_option(std::string_view flag, std::string_view text,
                     std::string_view others = "");

void add_kv_options(CLI::App& app, KvOptions& options);

// What the options mean for a model whose files are at `path`. Says so where
// its keys are known to suffer. Throws Error for a kv_config.json that is
// missing or does not fit the model.
KvScheme kv_scheme(const KvOptions& options, const TextModel& model,
                   const Path& path, Precision precision);

}  // namespace quern
