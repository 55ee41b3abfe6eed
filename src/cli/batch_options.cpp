#include "cli/batch_options.h"

namespace quern {
namespace {

constexpr Word<BatchLayout> kLayouts[] = {{"ragged", BatchLayout::ragged},
                                          {"merged", BatchLayout::merged}};

}  // namespace

void add_batch_layout(CLI::App& app, BatchLayout& layout) {
  add_word(app, "--batch-layout", layout, kLayouts,
           "How rows that decode together keep keys and values: ragged "
           "(default), each its own; merged: all in one padded buffer a layer, "
           "in plain MLX ops, slower and as wide as the longest row");
}

}  // namespace quern
