// A transformer layer as one node: attention and a gated feed-forward block.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "ops/attention/attention.h"
#include "ops/qmm/qmm.h"

namespace quern {

struct LayerWeights {
  Projection qkv;      // three weights: [heads * D, K], twice [kv_heads * D, K]
  Projection out;      // [K, heads * D]
  Projection gate_up;  // two weights [I, K] and a gate
  Projection down;     // [K, I]
};

struct LayerResult {
  mx::array out;                  // f32 [T, K]
  mx::array done;                 // as of attend
  std::vector<mx::array> planes;  // as of attend
};

// h = out(attend(qkv(x))) + x; down(gate_up(h)) + h, for x [T, K]: the same
// numbers as matmul and attend give one after the other (decoder_layer_parts),
// with what lies between them in memory of the thread. A node of the graph and
// the hand-over to the stream's thread cost more than many a small op.
// `precision` is that of the attention too.
LayerResult decoder_layer(const mx::array& x, const LayerWeights& weights,
                          Precision precision, std::vector<AttendRow> rows,
                          AttendOptions options,
                          const std::optional<mx::array>& rope_table,
                          mx::StreamOrDevice s = {});

// The layer around any attention, node by node: `attend` takes q [T, heads * D]
// and k, v [T, kv_heads * D], and gives [T, heads * D].
using AttendFunction = std::function<mx::array(
    const mx::array& q, const mx::array& k, const mx::array& v)>;
mx::array layer_around(const mx::array& x, const LayerWeights& weights,
                       Precision precision, const AttendFunction& attend,
                       mx::StreamOrDevice s = {});

// The meaning of decoder_layer, node by node.
LayerResult decoder_layer_parts(const mx::array& x, const LayerWeights& weights,
                                Precision precision,
                                std::vector<AttendRow> rows,
                                AttendOptions options,
                                const std::optional<mx::array>& rope_table,
                                mx::StreamOrDevice s = {});

}  // namespace quern
