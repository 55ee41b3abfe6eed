#include "ops/attention/attention.h"

#include <mlx/mlx.h>

#include <limits>
#include <memory>

#include "ops/attention/run.h"

namespace quern {
namespace {

using mx::array;

// Inputs q, k, v, the rope's table if any, then what the planes wait for;
// outputs the result and `done`.
class AttendPrimitive final : public CpuPrimitive {
 public:
  AttendPrimitive(mx::Stream s, AttendPlan plan, bool rope)
      : CpuPrimitive(s, "quern.attend"),
        plan_(std::make_shared<const AttendPlan>(std::move(plan))),
        rope_(rope) {}

  void eval_cpu(const std::vector<array>& inputs,
                std::vector<array>& outputs) override {
    std::vector<array> in;
    for (int i = 0; i < (rope_ ? 4 : 3); i++) {
      in.push_back(array::unsafe_weak_copy(inputs[i]));
    }
    for (array& a : outputs) a.set_data(allocate(a.nbytes()));
    mx::cpu::get_command_encoder(stream()).dispatch(
        [plan = plan_, in = std::move(in), rope = rope_,
         out = array::unsafe_weak_copy(outputs[0])]() mutable {
          run_attend(*plan, in[0].shape(1) / plan->options.kv.head_dim,
                     in[0].data<float>(), in[1].data<float>(),
                     in[2].data<float>(), rope ? in[3].data<float>() : nullptr,
                     rope ? 2 * in[3].shape(2) : 0, out.data<float>());
        });
  }

 private:
  std::shared_ptr<const AttendPlan> plan_;
  bool rope_;
};

bool fits(const AttendRow& row, int tokens, const AttendOptions& o) {
  if (row.begin < 0 || row.count < 0 || row.start < 0 ||
      int64_t(row.begin) + row.count > tokens || row.capacity % 64) {
    return false;
  }
  if (int64_t(row.start) + row.count > row.capacity &&
      !(o.ring && row.capacity >= ring_capacity(o.window))) {
    return false;
  }
  const array& planes = row.planes;
  if (planes.size() == 0) return row.start == 0;
  const int held = o.kv.capacity_of(planes);
  return planes.dtype() == o.kv.dtype() &&
         planes.shape() == o.kv.planes(held) && held <= row.capacity &&
         (held >= row.start || held == row.capacity);
}

void check(const array& q, const array& k, const array& v, const KvShape& kv) {
  const int width = kv.kv_heads * kv.head_dim;
  const mx::Shape want{q.ndim() == 2 ? q.shape(0) : 0, width};
  if (q.ndim() != 2 || q.shape(1) % width != 0 || k.shape() != want ||
      v.shape() != want) {
    fail("[attend] expected q [T, n * {0}], k and v [T, {0}]", width);
  }
}

void check(const KvShape& kv) {
  if (kv.kv_heads < 1 || kv.head_dim < 1) {
    fail("[attend] needs a KV head of at least one number");
  }
  if (!kv.format.raw()) block_of(kv.format, kv.head_dim);
}

}  // namespace

bool KvShape::holds(int capacity) const {
  const int64_t numbers = int64_t(capacity) * (format.raw() ? head_dim : 1);
  return numbers <= std::numeric_limits<mx::ShapeElem>::max();
}

int KvShape::capacity_of(const array& planes) const {
  if (format.raw()) {
    return int(planes.size() / (size_t(2) * kv_heads * head_dim));
  }
  const size_t block = size_t(kv_heads) * block_of(format, head_dim).bytes;
  return int(planes.size() / block * kKvBlock);
}

mx::Shape KvShape::planes(int capacity) const {
  if (!holds(capacity)) {
    fail("[kv] {} tokens of {} numbers a head are too many for one row",
         capacity, head_dim);
  }
  if (format.raw()) {
    return {2 * kv_heads, mx::ShapeElem(capacity * head_dim)};
  }
  return {kv_heads, capacity / kKvBlock, block_of(format, head_dim).bytes};
}

mx::Dtype KvShape::dtype() const {
  if (!format.raw()) return mx::uint8;
  switch (format.number) {
    case qmm::Number::f16: return mx::float16;
    case qmm::Number::bf16: return mx::bfloat16;
    default: return mx::float32;
  }
}

size_t KvShape::bytes(int capacity) const {
  size_t numbers = 1;
  for (const auto size : planes(capacity)) numbers *= size_t(size);
  return numbers * dtype().size();
}

void check_attend(const std::vector<AttendRow>& rows, const AttendOptions& o,
                  int tokens, const std::optional<array>& rope_table) {
  check(o.kv);
  if (o.window < 0 || o.window > kMostWindow || (o.ring && o.window == 0)) {
    fail("[attend] the window must be in [1, {}] for a ring, got {}",
         kMostWindow, o.window);
  }
  const int D = o.kv.head_dim;
  for (const auto* norm : {&o.q_norm, &o.k_norm}) {
    if (*norm && int((*norm)->weight.size()) != D) {
      fail("[attend] a head's norm must have {} numbers, got {}", D,
           (*norm)->weight.size());
    }
  }
  if (rope_table &&
      (rope_table->ndim() != 3 || rope_table->shape(0) != tokens ||
       rope_table->shape(1) != 2 || 2 * rope_table->shape(2) > D)) {
    fail("[attend] expected a rope table [T, 2, R] with 2 R <= {}", D);
  }
  for (const AttendRow& row : rows) {
    if (!fits(row, tokens, o)) {
      fail(
          "[attend] a row of tokens [{}, {}) at position {} does not fit "
          "planes of {} tokens",
          row.begin, row.begin + row.count, row.start, row.capacity);
    }
  }
}

Attended attend(const array& q_any, const array& k_any, const array& v_any,
                std::vector<AttendRow> rows, const AttendOptions& options,
                const std::optional<array>& rope_table,
                mx::StreamOrDevice where) {
  const mx::Stream s = stream_of(where);
  auto f32 = [&](const array& a) {
    return in_row_order(mx::astype(a, mx::float32, s), s);
  };
  std::vector<array> inputs{f32(q_any), f32(k_any), f32(v_any)};
  check(options.kv);
  check(inputs[0], inputs[1], inputs[2], options.kv);
  check_attend(rows, options, inputs[0].shape(0), rope_table);
  if (!on_cpu(s)) fail("[attend] has no kernel for this device");
  if (rope_table) inputs.push_back(f32(*rope_table));

  AttendPlan plan(std::move(rows), options, inputs);
  const mx::Shape shape = inputs[0].shape();
  std::vector<array> planes = plan.planes();
  auto out = array::make_arrays({shape, {1}}, {mx::float32, mx::bool_},
                                std::make_shared<AttendPrimitive>(
                                    s, std::move(plan), rope_table.has_value()),
                                inputs);
  return {std::move(out[0]), std::move(out[1]), std::move(planes)};
}

}  // namespace quern
