// --batch-layout: the form of rows that decode together.
#pragma once

#include "cli/options.h"
#include "kv/step_rows.h"

namespace quern {

void add_batch_layout(CLI::App& app, BatchLayout& layout);

}  // namespace quern
