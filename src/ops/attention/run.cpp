#include "ops/attention/run.h"

#include <mlx/mlx.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <span>

#include "ops/huge_pages.h"
#include "ops/kernels.h"
#include "ops/thread_pool.h"
#include "ops/turbo/format.h"

namespace quern {
namespace {

using mx::array;

constexpr int kSplit = 512;               // keys of one running softmax
constexpr int kTokensAtOnce = 16;         // of a prefill, in one task
constexpr int kNumbersToShare = 1 << 16;  // that a second thread helps with

// One row of the call, as the kernels see it.
struct Row {
  int begin, count, start, capacity;
  uint8_t* keys;
  uint8_t* values;
};

class Attention {
 public:
  // `table` is the rope's, [T, 2, rotary / 2], or null.
  Attention(const AttendOptions& options, int heads, const float* q,
            const float* k, const float* v, const float* table, int rotary,
            float* out)
      : o_(options),
        heads_(heads),
        group_(heads / options.kv.kv_heads),
        D_(options.kv.head_dim),
        raw_(options.kv.format.raw()),
        block_(raw_ ? KvBlock{} : block_of(options.kv.format, D_)),
        bytes_(qmm::number_bytes(options.kv.format.number)),
        q_(q),
        k_(k),
        v_(v),
        table_(table),
        rotary_(rotary),
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

  // `heads` heads of one token of q or k, normalised and rotated, into y.
  void turn(const std::optional<RmsNorm>& norm, const float* x, int token,
            int heads, float* y) const {
    if (norm) {
      for (int h = 0; h < heads; h++) {
        kernels().rms_norm(x + h * D_, norm->weight.data<float>(), norm->offset,
                           norm->eps, D_, y + h * D_);
      }
    } else {
      std::copy_n(x, heads * D_, y);
    }
    if (!table_) return;
    const float* angles = table_ + int64_t(token) * rotary_;
    kernels().rope(y, heads, D_, rotary_, o_.interleaved_rope, angles,
                   angles + rotary_ / 2);
  }

  // Key and value of one KV head of token t of the row.
  void store(const Row& row, int t, int head) const {
    thread_local std::vector<float> memory;
    memory.resize(D_);
    const int H = o_.kv.kv_heads, token = row.begin + t;
    const int64_t at = (int64_t(token) * H + head) * D_;
    turn(o_.k_norm, k_ + at, token, 1, memory.data());
    const int to = slot(row, row.start + t);
    if (!raw_) {
      return encode_token(block_, memory.data(), v_ + at, to % kKvBlock,
                          block_at(row, head, to));
    }
    const int64_t plane = int64_t(head) * row.capacity * D_ * bytes_;
    kernels().store_kv(o_.kv.format.number, memory.data(), v_ + at, D_, to,
                       row.keys + plane, row.values + plane);
  }

  uint8_t* block_at(const Row& row, int head, int slot) const {
    const int64_t blocks = row.capacity / kKvBlock;
    return row.keys + (head * blocks + slot / kKvBlock) * block_.bytes;
  }

  // A row's only token is stored by the task that reads it.
  void store(std::span<const Row> rows) const {
    for (const Row& row : rows) {
      if (row.count == 1) continue;
      if (!raw_) {
        store_blocks(row);
        continue;
      }
      parallel_for(row.count, 16, [&](int begin, int end) {
        for (int t = begin; t < end; t++) {
          for (int h = 0; h < o_.kv.kv_heads; h++) store(row, t, h);
        }
      });
    }
  }

  // Tokens of a block share bytes, so that a block is one thread's.
  void store_blocks(const Row& row) const {
    const int first = row.start / kKvBlock;
    const int last = (row.start + row.count - 1) / kKvBlock;
    const int H = o_.kv.kv_heads;
    thread_pool().run((last - first + 1) * H, [&](int i) {
      const int block = (first + i / H) * kKvBlock;
      const int begin = std::max(block, row.start);
      const int end = std::min(block + kKvBlock, row.start + row.count);
      for (int p = begin; p < end; p++) store(row, p - row.start, i % H);
    });
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
    int64_t numbers = 0;  // of keys, as often as a query meets them
    for (const Row& row : rows) {
      const int keys =
          std::min(row.start + row.count,
                   o_.window > 0 ? o_.window + row.count
                                 : std::numeric_limits<int>::max());
      numbers += int64_t(keys) * row.count * heads_ * D_;
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
    const auto run_task = [&](int i) {
      const Task& task = tasks[i];
      if (task.split < 0) {
        attend_tokens(task);
      } else {
        attend_split(task, state_at(task.slot));
      }
    };
    if (numbers < kNumbersToShare) {
      for (int i = 0; i < int(tasks.size()); i++) run_task(i);
    } else {
      thread_pool().run(int(tasks.size()), run_task);
    }
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
    std::vector<int8_t> int8;  // of codes in fast precision
    std::vector<float> scale, sum;
    std::vector<int32_t> total;

    PackedQueries packed() {
      return {int8.data(), scale.data(), sum.data(), total.data()};
    }
    void quantize() {
      int8.resize(q.size());
      for (auto* numbers : {&scale, &sum}) numbers->resize(q.size() / 32);
      total.resize(q.size() / 32);
      kernels().quantize_queries(q.data(), int(q.size()), packed());
    }
  };
  // A task's queries, scaled, token by token and head by head.
  Queries& gather(const Task& task) {
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
      float* to = queries.q.data() + int64_t(t) * group_ * D_;
      turn(o_.q_norm, q_ + at, task.row->begin + token, group_, to);
      kernels().scale(to, o_.scale, group_ * D_, to);
      for (int g = 0; g < group_; g++) {
        queries.first[t * group_ + g] = first_key(position);
        queries.last[t * group_ + g] = position + 1;
      }
    }
    if (in_int8()) queries.quantize();
    return queries;
  }

  // Whether scores and sums are made of the codes as integers.
  bool in_int8() const { return !raw_ && o_.precision == Precision::fast; }

  // Adds the keys of one split to `state`, in pieces that lie together.
  void add_split(const Task& task, Queries& queries, int split,
                 const State& state) const {
    const Row& row = *task.row;
    const int position = row.start + task.token;
    const int end = std::min((split + 1) * kSplit, position + task.count);
    if (row.count == 1 && end == position + 1) store(row, 0, task.head);
    int begin = std::max(split * kSplit, first_key(position) / 64 * 64);
    while (begin < end) {
      const int from = slot(row, begin);
      const int to = std::min(end, begin + row.capacity - from);
      if (!raw_) {
        kernels().attend_packed(
            {.form = block_,
             .blocks = block_at(row, task.head, from),
             .queries = task.count * group_,
             .q = queries.q.data(),
             .int8 = in_int8() ? queries.packed() : PackedQueries{},
             .first = queries.first.data(),
             .last = queries.last.data(),
             .begin = begin,
             .end = to,
             .soft_cap = o_.soft_cap,
             .max = state.max,
             .sum = state.sum,
             .out = state.out,
             .scratch = scratch()});
        begin = to;
        continue;
      }
      const int64_t plane =
          (int64_t(task.head) * row.capacity + from) * D_ * bytes_;
      kernels().attend({.number = o_.kv.format.number,
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
                        .out = state.out,
                        .scratch = scratch()});
      begin = to;
    }
  }

  // A block of keys and values as f32, of the calling thread.
  float* scratch() const {
    constexpr size_t line = 64;
    thread_local std::vector<float> memory;
    memory.resize(size_t(2) * kKvBlock * D_ + line / sizeof(float));
    void* p = memory.data();
    size_t room = memory.size() * sizeof(float);
    return static_cast<float*>(std::align(line, room - line, p, room));
  }

  void attend_split(const Task& task, const State& state) {
    const Splits splits = splits_of(*task.row, task.token, task.count);
    clear(state, group_);
    add_split(task, gather(task), splits.first + task.split, state);
  }

  void attend_tokens(const Task& task) {
    thread_local std::vector<float> memory;
    const int n = task.count * group_;
    Queries& queries = gather(task);
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
      float* out = out_ + (int64_t(token) * heads_ + head) * D_;
      kernels().scale(total.out + i * D_, 1.f / total.sum[i], D_, out);
      if (block_.turbo) turn_back(out);
    }
  }

  // From the space that values of turbo are stored in.
  void turn_back(float* out) const {
    kernels().fwht(out, D_);
    const float* sign = turbo::signs(D_);
    for (int d = 0; d < D_; d++) out[d] *= sign[d];
  }

  const AttendOptions& o_;
  int heads_, group_, D_;
  bool raw_;
  KvBlock block_;  // of codes
  int bytes_;      // of a raw number
  const float *q_, *k_, *v_, *table_;
  int rotary_;
  float* out_;
};

// The planes of each head keep their place at its start.
void grow(const array& from, array& to) {
  std::memset(to.data<uint8_t>(), 0, to.nbytes());
  const int planes = to.shape(0);
  const size_t old_bytes = from.nbytes() / planes;
  const size_t new_bytes = to.nbytes() / planes;
  for (int i = 0; i < planes; i++) {
    std::memcpy(to.data<uint8_t>() + i * new_bytes,
                from.data<uint8_t>() + i * old_bytes, old_bytes);
  }
}

}  // namespace

void put_kv(const KvShape& kv, const float* k, const float* v, int head,
            int slot, array& planes) {
  const KvBlock form = block_of(kv.format, kv.head_dim);
  const int64_t blocks = planes.shape(1);
  uint8_t* block =
      planes.data<uint8_t>() + (head * blocks + slot / kKvBlock) * form.bytes;
  encode_token(form, k, v, slot % kKvBlock, block);
}

AttendPlan::AttendPlan(std::vector<AttendRow> rows,
                       const AttendOptions& attend_options,
                       std::vector<array>& inputs)
    : options(attend_options) {
  for (auto* norm : {&options.q_norm, &options.k_norm}) {
    if (*norm && !(*norm)->weight.is_available()) mx::eval((*norm)->weight);
  }
  parts.reserve(rows.size());
  const KvShape& kv = options.kv;
  for (AttendRow& row : rows) {
    if (row.after && row.after->id() != inputs.back().id()) {
      inputs.push_back(std::move(*row.after));
    }
    if (!row.planes.is_available()) mx::eval(row.planes);
    Part part{row.begin, row.count, row.start, row.capacity, row.planes, {}};
    const mx::Shape wanted = kv.planes(row.capacity);
    if (row.planes.shape() != wanted) {
      part.before = std::move(part.planes);
      part.planes = array(allocate(kv.bytes(row.capacity)), wanted, kv.dtype());
      prefer_huge_pages(part.planes.data<uint8_t>(), part.planes.nbytes());
    }
    parts.push_back(std::move(part));
  }
}

std::vector<array> AttendPlan::planes() const {
  std::vector<array> planes;
  planes.reserve(parts.size());
  for (const Part& part : parts) planes.push_back(part.planes);
  return planes;
}

void run_attend(const AttendPlan& plan, int heads, const float* q,
                const float* k, const float* v, const float* table, int rotary,
                float* out) {
  std::vector<Row> rows;
  rows.reserve(plan.parts.size());
  for (const AttendPlan::Part& p : plan.parts) {
    array planes = p.planes;  // the same memory
    if (p.before) grow(*p.before, planes);
    auto* bytes = planes.data<uint8_t>();
    rows.push_back({p.begin, p.count, p.start, p.capacity, bytes,
                    bytes + planes.nbytes() / 2});
  }
  Attention(plan.options, heads, q, k, v, table, rotary, out).run(rows);
}

}  // namespace quern
