#include "ops/attention/attention.h"

#include <mlx/mlx.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "ops/kernels.h"
#include "ops/thread_pool.h"

namespace quern {
namespace {

using mx::array;

constexpr int kSplit = 512;        // keys of one running softmax
constexpr int kTokensAtOnce = 16;  // of a prefill, in one task

// One row of the call, as the kernels see it.
struct Row {
  int begin, count, start, capacity;
  uint8_t* keys;
  uint8_t* values;
};

class Attention {
 public:
  Attention(const AttendOptions& options, int heads, const float* q,
            const float* k, const float* v, float* out)
      : o_(options),
        heads_(heads),
        group_(heads / options.kv.kv_heads),
        D_(options.kv.head_dim),
        bytes_(qmm::number_bytes(options.kv.number)),
        q_(q),
        k_(k),
        v_(v),
        out_(out) {}

  // Appends the rows' tokens and attends. A ring takes them in steps, so that
  // nothing a token of the step still sees is overwritten.
  void run(std::span<const Row> rows) {
    int most = 0;
    for (const Row& row : rows) most = std::max(most, row.count);
    const int step = o_.ring ? kRingStep : std::max(most, 1);
    for (int done = 0; done < most; done += step) {
      std::vector<Row> parts;
      for (Row row : rows) {
        if (row.count <= done) continue;
        row.begin += done;
        row.start += done;
        row.count = std::min(row.count - done, step);
        parts.push_back(row);
      }
      store(parts);
      attend_rows(parts);
    }
  }

 private:
  // One task: some tokens of a row with the query heads of one KV head, and
  // either all splits of their keys or one.
  struct Task {
    const Row* row;
    int head;          // KV head
    int token, count;  // in the row
    int split;         // -1 = all, joined
    int slot;          // of the split's state, if one
  };
  struct State {  // running softmax of `queries` queries
    float *max, *sum, *out;
  };

  void store(std::span<const Row> rows) {
    const int H = o_.kv.kv_heads;
    for (const Row& row : rows) {
      parallel_for(row.count, 16, [&](int begin, int end) {
        for (int t = begin; t < end; t++) {
          for (int h = 0; h < H; h++) {
            const int64_t at = (int64_t(row.begin + t) * H + h) * D_;
            const int64_t plane = int64_t(h) * row.capacity * D_ * bytes_;
            kernels().store_kv(o_.kv.number, k_ + at, v_ + at, D_,
                               slot(row, row.start + t), row.keys + plane,
                               row.values + plane);
          }
        }
      });
    }
  }

  int slot(const Row& row, int position) const {
    return o_.ring ? position % row.capacity : position;
  }
  // Keys [first, last) that the token of a position sees.
  int first_key(int position) const {
    return o_.window > 0 ? std::max(0, position + 1 - o_.window) : 0;
  }

  void attend_rows(std::span<const Row> rows) {
    std::vector<Task> tasks, joined;
    int slots = 0;
    for (const Row& row : rows) {
      for (int h = 0; h < o_.kv.kv_heads; h++) {
        for (int t = 0; t < row.count; t += kTokensAtOnce) {
          const int count = std::min(kTokensAtOnce, row.count - t);
          const int splits = splits_of(row, t, count).size();
          Task task{&row, h, t, count, -1, 0};
          if (row.count > 1 || splits == 1) {
            tasks.push_back(task);
            continue;
          }
          task.slot = slots;
          joined.push_back(task);
          for (int i = 0; i < splits; i++) {
            tasks.push_back({&row, h, t, count, i, slots++});
          }
        }
      }
    }
    const int state = group_ * (D_ + 2);
    std::vector<float> states(size_t(slots) * state);
    auto state_at = [&](int slot) {
      float* p = states.data() + int64_t(slot) * state;
      return State{p, p + group_, p + 2 * group_};
    };
    thread_pool().run(int(tasks.size()), [&](int i) {
      const Task& task = tasks[i];
      if (task.split < 0) {
        attend_tokens(task);
      } else {
        attend_split(task, state_at(task.slot));
      }
    });
    for (const Task& task : joined) {
      const int splits = splits_of(*task.row, task.token, task.count).size();
      State total = fresh_state(group_);
      for (int i = 0; i < splits; i++) {
        join(total, state_at(task.slot + i), group_);
      }
      finish(task, total);
    }
  }

  struct Splits {
    int first, last;  // indices of blocks of kSplit keys
    int size() const { return last - first; }
  };
  Splits splits_of(const Row& row, int token, int count) const {
    const int position = row.start + token;
    return {first_key(position) / kSplit,
            (position + count + kSplit - 1) / kSplit};
  }

  // State in memory of the calling thread, kept for its next use.
  State fresh_state(int queries) {
    thread_local std::vector<float> memory;
    return cleared(memory, queries);
  }
  State cleared(std::vector<float>& memory, int queries) const {
    memory.resize(size_t(queries) * (D_ + 2));
    const State s{memory.data(), memory.data() + queries,
                  memory.data() + 2 * queries};
    clear(s, queries);
    return s;
  }
  void clear(const State& s, int queries) const {
    std::fill_n(s.max, queries, -std::numeric_limits<float>::infinity());
    std::fill_n(s.sum, queries, 0.f);
    std::fill_n(s.out, int64_t(queries) * D_, 0.f);
  }
  void join(const State& total, const State& part, int queries) const {
    for (int i = 0; i < queries; i++) {
      kernels().attend_join(total.max + i, total.sum + i, total.out + i * D_,
                            part.max + i, part.sum + i, part.out + i * D_, D_);
    }
  }

  struct Queries {
    std::vector<float> q;
    std::vector<int> first, last;
  };
  // A task's queries, scaled, token by token and head by head.
  const Queries& gather(const Task& task) {
    thread_local Queries queries;
    const int n = task.count * group_;
    queries.q.resize(size_t(n) * D_);
    queries.first.resize(n);
    queries.last.resize(n);
    for (int t = 0; t < task.count; t++) {
      const int token = task.token + t;
      const int position = task.row->start + token;
      const int64_t at = (int64_t(task.row->begin + token) * heads_ +
                          int64_t(task.head) * group_) *
                         D_;
      kernels().scale(q_ + at, o_.scale, group_ * D_,
                      queries.q.data() + int64_t(t) * group_ * D_);
      for (int g = 0; g < group_; g++) {
        queries.first[t * group_ + g] = first_key(position);
        queries.last[t * group_ + g] = position + 1;
      }
    }
    return queries;
  }

  // Adds the keys of one split to `state`, in pieces that lie together.
  void add_split(const Task& task, const Queries& queries, int split,
                 const State& state) const {
    const Row& row = *task.row;
    const int position = row.start + task.token;
    const int end = std::min((split + 1) * kSplit, position + task.count);
    int begin = std::max(split * kSplit, first_key(position) / 64 * 64);
    while (begin < end) {
      const int from = slot(row, begin);
      const int to = std::min(end, begin + row.capacity - from);
      const int64_t plane =
          (int64_t(task.head) * row.capacity + from) * D_ * bytes_;
      kernels().attend({.number = o_.kv.number,
                        .k = row.keys + plane,
                        .v = row.values + plane,
                        .head_dim = D_,
                        .queries = task.count * group_,
                        .q = queries.q.data(),
                        .first = queries.first.data(),
                        .last = queries.last.data(),
                        .begin = begin,
                        .end = to,
                        .soft_cap = o_.soft_cap,
                        .max = state.max,
                        .sum = state.sum,
                        .out = state.out});
      begin = to;
    }
  }

  void attend_split(const Task& task, const State& state) {
    const Splits splits = splits_of(*task.row, task.token, task.count);
    clear(state, group_);
    add_split(task, gather(task), splits.first + task.split, state);
  }

  void attend_tokens(const Task& task) {
    thread_local std::vector<float> memory;
    const int n = task.count * group_;
    const Queries& queries = gather(task);
    const Splits splits = splits_of(*task.row, task.token, task.count);
    const State total = fresh_state(n);
    for (int i = splits.first; i < splits.last; i++) {
      const State part = cleared(memory, n);
      add_split(task, queries, i, part);
      join(total, part, n);
    }
    finish(task, total);
  }

  void finish(const Task& task, const State& total) const {
    for (int i = 0; i < task.count * group_; i++) {
      const int token = task.row->begin + task.token + i / group_;
      const int head = task.head * group_ + i % group_;
      kernels().scale(total.out + i * D_, 1.f / total.sum[i], D_,
                      out_ + (int64_t(token) * heads_ + head) * D_);
    }
  }

  const AttendOptions& o_;
  int heads_, group_, D_, bytes_;
  const float *q_, *k_, *v_;
  float* out_;
};

// Inputs q, k, v, then each row's planes; outputs the result, then the planes.
class AttendPrimitive final : public CpuPrimitive {
 public:
  struct RowPlan {
    int begin, count, start, capacity;
  };

  AttendPrimitive(mx::Stream s, AttendOptions options,
                  std::vector<RowPlan> rows)
      : CpuPrimitive(s, "quern.attend"),
        options_(options),
        rows_(std::move(rows)) {}

  void eval_cpu(const std::vector<array>& inputs,
                std::vector<array>& outputs) override {
    outputs[0].set_data(allocate(outputs[0].nbytes()));
    std::vector<array> in, out;
    for (auto& a : inputs) in.push_back(array::unsafe_weak_copy(a));
    for (size_t i = 0; i < rows_.size(); i++) {
      array& planes = outputs[1 + i];
      if (keeps(inputs[3 + i], planes)) {
        planes.copy_shared_buffer(inputs[3 + i]);
      } else {
        planes.set_data(allocate(planes.nbytes()));
      }
    }
    for (auto& a : outputs) out.push_back(array::unsafe_weak_copy(a));
    mx::cpu::get_command_encoder(stream()).dispatch(
        [options = options_, rows = rows_, in = std::move(in),
         out = std::move(out)]() mutable { run(options, rows, in, out); });
  }

 private:
  static bool keeps(const array& before, const array& after) {
    return before.size() == after.size();
  }

  static void run(const AttendOptions& options,
                  const std::vector<RowPlan>& plans, std::vector<array>& in,
                  std::vector<array>& out) {
    std::vector<Row> rows;
    for (size_t i = 0; i < plans.size(); i++) {
      const RowPlan& p = plans[i];
      auto* planes = out[1 + i].data<uint8_t>();
      if (!keeps(in[3 + i], out[1 + i]))
        grow(options.kv, in[3 + i], out[1 + i]);
      rows.push_back({p.begin, p.count, p.start, p.capacity, planes,
                      planes + out[1 + i].nbytes() / 2});
    }
    Attention(options, in[0].shape(1) / options.kv.head_dim,
              in[0].data<float>(), in[1].data<float>(), in[2].data<float>(),
              out[0].data<float>())
        .run(rows);
  }

  // Both planes of each head keep their place at its start.
  static void grow(const KvShape& kv, const array& from, array& to) {
    std::memset(to.data<uint8_t>(), 0, to.nbytes());
    const size_t old_bytes = from.nbytes() / (2 * kv.kv_heads);
    const size_t new_bytes = to.nbytes() / (2 * kv.kv_heads);
    for (int i = 0; i < 2 * kv.kv_heads; i++) {
      std::memcpy(to.data<uint8_t>() + i * new_bytes,
                  from.data<uint8_t>() + i * old_bytes, old_bytes);
    }
  }

  AttendOptions options_;
  std::vector<RowPlan> rows_;
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
  const int held =
      int(planes.size() / (size_t(2) * o.kv.kv_heads * o.kv.head_dim));
  return planes.dtype() == o.kv.dtype() &&
         planes.shape() == o.kv.planes(held) && held <= row.capacity &&
         (held >= row.start || held == row.capacity);
}

void check(const array& q, const array& k, const array& v,
           std::span<const AttendRow> rows, const AttendOptions& o) {
  const KvShape& kv = o.kv;
  if (kv.kv_heads < 1 || kv.head_dim < 1) {
    fail("[attend] needs a KV head of at least one number");
  }
  const int width = kv.kv_heads * kv.head_dim;
  const mx::Shape want{q.ndim() == 2 ? q.shape(0) : 0, width};
  if (q.ndim() != 2 || q.shape(1) % width != 0 || k.shape() != want ||
      v.shape() != want) {
    fail("[attend] expected q [T, n * {0}], k and v [T, {0}]", width);
  }
  if (o.window < 0 || o.window > kMostWindow || (o.ring && o.window == 0)) {
    fail("[attend] the window must be in [1, {}] for a ring, got {}",
         kMostWindow, o.window);
  }
  for (const AttendRow& row : rows) {
    if (!fits(row, q.shape(0), o)) {
      fail(
          "[attend] a row of tokens [{}, {}) at position {} does not fit "
          "planes of {} tokens",
          row.begin, row.begin + row.count, row.start, row.capacity);
    }
  }
}

}  // namespace

bool KvShape::holds(int capacity) const {
  const int64_t numbers = int64_t(capacity) * head_dim;
  return numbers <= std::numeric_limits<mx::ShapeElem>::max();
}

mx::Shape KvShape::planes(int capacity) const {
  if (!holds(capacity)) {
    fail("[kv] {} tokens of {} numbers a head are too many for one row",
         capacity, head_dim);
  }
  return {2 * kv_heads, mx::ShapeElem(capacity * head_dim)};
}

mx::Dtype KvShape::dtype() const {
  switch (number) {
    case qmm::Number::f16: return mx::float16;
    case qmm::Number::bf16: return mx::bfloat16;
    default: return mx::float32;
  }
}

Attended attend(const array& q_any, const array& k_any, const array& v_any,
                std::span<const AttendRow> rows, const AttendOptions& options,
                mx::StreamOrDevice where) {
  const mx::Stream s = stream_of(where);
  auto f32 = [&](const array& a) {
    return in_row_order(mx::astype(a, mx::float32, s), s);
  };
  std::vector<array> inputs{f32(q_any), f32(k_any), f32(v_any)};
  check(inputs[0], inputs[1], inputs[2], rows, options);
  if (!on_cpu(s)) fail("[attend] has no kernel for this device");

  const array& q = inputs[0];
  std::vector<mx::Shape> shapes{q.shape()};
  std::vector<mx::Dtype> dtypes{mx::float32};
  std::vector<AttendPrimitive::RowPlan> plans;
  for (const AttendRow& row : rows) {
    inputs.push_back(row.planes);
    shapes.push_back(options.kv.planes(row.capacity));
    dtypes.push_back(options.kv.dtype());
    plans.push_back({row.begin, row.count, row.start, row.capacity});
  }
  auto out = mx::array::make_arrays(
      std::move(shapes), dtypes,
      std::make_shared<AttendPrimitive>(s, options, std::move(plans)), inputs);
  Attended result{std::move(out[0]), {}};
  result.planes.assign(std::make_move_iterator(out.begin() + 1),
                       std::make_move_iterator(out.end()));
  return result;
}

}  // namespace quern
