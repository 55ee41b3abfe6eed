// --kv and --kv-ring: what keys and values are kept in.
#pragma once

#include "cli/options.h"
#include "models/model.h"

namespace quern {

struct KvOptions {
  KvCodec codec;
  bool ring_same = false;

  KvScheme scheme(Precision precision) const;
};

void add_kv_options(CLI::App& app, KvOptions& options);

// Warns where a model's keys are known to suffer from few bits.
void warn_of_coarse_keys(const KvScheme& scheme, const TextModel& model);

}  // namespace quern
