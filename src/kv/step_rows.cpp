#include "kv/step_rows.h"

#include <mlx/mlx.h>

#include "ops/rope/rope.h"

namespace quern {
namespace {

using mx::array;

class RaggedStep final : public StepRows {
 public:
  explicit RaggedStep(std::span<const StepRow> rows)
      : rows_(rows.begin(), rows.end()) {}

  std::vector<int32_t> positions() const override {
    std::vector<int32_t> positions;
    for (const StepRow& row : rows_) {
      const int start = row.row->length();
      for (int i = 0; i < row.count; i++) positions.push_back(start + i);
    }
    return positions;
  }

  array decoder_layer(int layer, const array& x, const LayerWeights& weights,
                      Precision precision, const AttendOptions& options,
                      const array& rope_table) override {
    std::vector<CacheRow> rows;
    rows.reserve(rows_.size());
    int begin = 0;
    for (const StepRow& row : rows_) {
      rows.push_back(
          {static_cast<Cache*>(&row.row->layer(layer)), begin, row.count});
      begin += row.count;
    }
    AttendOptions all = options;
    auto parts = attend_rows(rows, all);
    LayerResult result = quern::decoder_layer(
        x, weights, precision, std::move(parts), all, rope_table);
    appended(rows, std::move(result.planes), result.done);
    return std::move(result.out);
  }

 private:
  std::vector<StepRow> rows_;
};

// x [B, H * D] -> [B, H, 1, D]
array heads(const array& x, int D) {
  return mx::reshape(x, {x.shape(0), x.shape(1) / D, 1, D});
}

class MergedStep final : public StepRows {
 public:
  explicit MergedStep(MergedRows& rows) : rows_(rows) {}

  std::vector<int32_t> positions() const override {
    std::vector<int32_t> positions;
    for (int i = 0; i < rows_.size(); i++) positions.push_back(rows_.length(i));
    return positions;
  }

  array decoder_layer(int layer, const array& x, const LayerWeights& weights,
                      Precision precision, const AttendOptions& options,
                      const array& rope_table) override {
    MergedCache& cache = rows_.layer(layer);
    const int D = cache.form().head_dim;
    const auto turned = [&](const array& x, const std::optional<RmsNorm>& n) {
      RopeOptions turn{.head_dim = D, .interleaved = options.interleaved_rope};
      if (n) {
        turn.norm = n->weight;
        turn.norm_eps = n->eps;
        turn.norm_offset = n->offset;
      }
      return heads(rope(x, rope_table, turn), D);
    };
    return layer_around(
        x, weights, precision,
        [&](const array& q, const array& k, const array& v) {
          const array out = cache.attend(
              turned(q, options.q_norm), turned(k, options.k_norm), heads(v, D),
              {.scale = options.scale, .soft_cap = options.soft_cap});
          cache.release_rope_offsets();
          return mx::reshape(out, q.shape());
        });
  }

 private:
  MergedRows& rows_;
};

}  // namespace

std::string_view name_of(BatchLayout layout) {
  return layout == BatchLayout::merged ? "merged" : "ragged";
}

std::unique_ptr<StepRows> ragged_step(std::span<const StepRow> rows) {
  return std::make_unique<RaggedStep>(rows);
}

std::unique_ptr<StepRows> merged_step(MergedRows& rows) {
  return std::make_unique<MergedStep>(rows);
}

}  // namespace quern
