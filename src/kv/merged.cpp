#include "kv/merged.h"

#include <mlx/mlx.h>

#include <algorithm>
#include <limits>

#include "kv/layout.h"

namespace quern {
namespace {

using mx::array;

constexpr int kStep = 256;  // tokens by which a buffer grows

array capped(const array& scores, float cap) {
  if (cap <= 0) return scores;
  return mx::multiply(mx::tanh(mx::divide(scores, array(cap))), array(cap));
}

// scores [B, kv_heads, G, N, S]
array masked(const array& scores, const Mask& mask) {
  if (mask.mode == Mask::Mode::none) return scores;
  const int N = scores.shape(3), S = scores.shape(4), none[] = {0};
  array allow = mask.allow ? *mask.allow : batched_mask(N, S, none, {});
  if (allow.ndim() == 4) allow = mx::expand_dims(allow, 2);
  return mx::where(allow, scores, array(std::numeric_limits<float>::lowest()));
}

// Those columns of the last axis, one after the other.
array joined(const array& a, const std::vector<Range>& columns) {
  mx::Shape start(a.ndim(), 0), stop = a.shape();
  std::vector<array> parts;
  for (const auto& [begin, end] : columns) {
    start.back() = begin;
    stop.back() = end;
    parts.push_back(mx::slice(a, start, stop));
  }
  return mx::concatenate(std::move(parts), -1);
}

void require_signature(const MergedCache& cache, const MergedCache& first) {
  if (cache.signature() == first.signature()) return;
  fail("[kv.merge] rows must share a signature: got {} and {}",
       first.signature(), cache.signature());
}

}  // namespace

array masked_attention(const array& q, const array& k, const array& v,
                       const Mask& mask, const MergedAttend& options) {
  const int B = q.shape(0), H = q.shape(1), N = q.shape(2), D = q.shape(3);
  const int kv_heads = k.shape(1), G = H / kv_heads;
  array heads = mx::multiply(mx::astype(q, mx::float32), array(options.scale));
  heads = mx::reshape(heads, {B, kv_heads, G, N, D});
  const array keys = mx::expand_dims(mx::swapaxes(k, -1, -2), 2);
  const array scores = capped(mx::matmul(heads, keys), options.soft_cap);
  const array weights = mx::softmax(masked(scores, mask), -1, true);
  return mx::reshape(mx::matmul(weights, mx::expand_dims(v, 2)), {B, H, N, D});
}

MergedCache::MergedCache(KvForm form, int window, int rows)
    : form_(form),
      window_(window),
      state_(window > 0 ? window : kMostTokens, std::vector<int>(rows, 0)),
      planes_{} {
  if (window < 0) fail("[kv.merged] a window of {} tokens", window);
  form.codec.require(form.head_dim);
  planes_ = form.zeros(rows, 0);
}

std::string MergedCache::signature() const {
  return fmt::format("merged/{}/{}",
                     window_ > 0 ? fmt::format("ring-{}", window_) : "append",
                     form_.signature());
}

MergedCache MergedCache::assembled(KvForm form, int window,
                                   std::vector<Block> blocks) {
  int width = 0;
  for (const Block& b : blocks) {
    width = std::max(width, storage::shape(b.planes)[2]);
  }
  std::vector<int> more, left_pad, offsets;
  std::vector<Planes> planes;
  for (Block& b : blocks) {
    more.push_back(width - storage::shape(b.planes)[2]);
    for (int pad : b.left_pad) left_pad.push_back(pad + more.back());
    offsets.insert(offsets.end(), b.offsets.begin(), b.offsets.end());
    planes.push_back(std::move(b.planes));
  }
  MergedCache out(form, window, 0);
  out.planes_ = storage::merge_rows(planes, more);
  out.state_ = BatchedRotatingState(out.state_.max_size(), left_pad);
  out.state_.restore_merged(width, std::move(offsets));
  mx::eval(out.planes_);
  return out;
}

MergedCache::Block MergedCache::block() const {
  MergedCache whole = *this;
  whole.settle();
  Block out{storage::temporal_view(whole.planes_, whole.state_, {}),
            whole.state_.left_pad(), offsets()};
  for (int& pad : out.left_pad) pad = std::max(0, pad);
  return out;
}

MergedCache::Block MergedCache::row_block(int row, int drop) const {
  MergedCache whole = *this;
  whole.settle();
  const BatchedRotatingState& state = whole.state_;
  return {storage::temporal_view(whole.planes_, state,
                                 {.row = row,
                                  .from = std::max(0, state.left_pad()[row]),
                                  .to = state.valid_length() - drop}),
          {0},
          {state.offsets()[row] - drop}};
}

MergedCache MergedCache::row(KvForm form, int window, const Planes& planes,
                             int offset) {
  form.codec.require(form.head_dim);
  form.require(planes);
  const mx::Shape shape = storage::shape(planes);
  const int kept = window > 0 ? std::min(window, offset) : offset;
  const int seen = window > 0 ? std::min(window - 1, offset) : offset;
  if (shape[0] != 1 || shape[2] < seen || shape[2] > kept) {
    fail("[kv.row] expected one row of {} tokens, got {} of {}", kept, shape[0],
         shape[2]);
  }
  return assembled(form, window, {{planes, {0}, {offset}}});
}

MergedCache MergedCache::merge(std::span<const MergedCache* const> caches) {
  if (caches.empty()) fail("[kv.merge] needs a row");
  const MergedCache& first = *caches[0];
  std::vector<Block> blocks;
  for (const MergedCache* cache : caches) {
    require_signature(*cache, first);
    blocks.push_back(cache->block());
  }
  return assembled(first.form_, first.window_, std::move(blocks));
}

MergedCache MergedCache::gather(std::span<const RowOf> rows) {
  if (rows.empty()) fail("[kv.gather] needs a row");
  const MergedCache& first = *rows[0].cache;
  std::vector<Block> blocks;
  for (const auto& [cache, row] : rows) {
    require_signature(*cache, first);
    cache->require_row(row);
    blocks.push_back(cache->row_block(row, 0));
  }
  return assembled(first.form_, first.window_, std::move(blocks));
}

void MergedCache::extend(const MergedCache& other) {
  const MergedCache* both[] = {this, &other};
  *this = merge(both);
}

MergedCache MergedCache::take(std::span<const int> keep) const {
  if (keep.empty()) fail("[kv.filter] needs a row");
  MergedCache out = *this;
  out.state_.filter(keep);
  out.planes_ = storage::take_rows(planes_, keep);
  out.release_rope_offsets();
  mx::eval(out.planes_);
  return out;
}

void MergedCache::require_row(int row) const {
  if (row >= 0 && row < batch_size()) return;
  fail("[kv.extract] no row {} of {}", row, batch_size());
}

int MergedCache::columns(int window, int tokens) {
  const int most = window > 0 ? window : kMostTokens;
  return tokens < most - kStep ? tokens + kStep : most;
}

MergedCache MergedCache::extract(int row) const {
  const RowOf only{this, row};
  return gather({&only, 1});
}

void MergedCache::align(std::span<const int> drop) {
  if (!drop.empty() && int(drop.size()) != batch_size()) {
    fail("[kv.align] {} rows, not {}", batch_size(), drop.size());
  }
  std::vector<Block> blocks;
  for (int row = 0; row < batch_size(); row++) {
    const int tokens = drop.empty() ? 0 : drop[row];
    const int most = whole(row) ? offsets()[row] : 0;
    if (tokens < 0 || tokens > most) {
      fail("[kv.align] {} tokens of row {}, at most {} can go", tokens, row,
           most);
    }
    blocks.push_back(row_block(row, tokens));
  }
  *this = assembled(form_, window_, std::move(blocks));
}

// Whether all tokens of a row are there.
bool MergedCache::whole(int row) const {
  const int held = state_.total_offset() - state_.left_pad()[row];
  return state_.trimmable() && held == offsets()[row];
}

int MergedCache::trimmable() const {
  if (batch_size() == 0) return 0;
  for (int row = 0; row < batch_size(); row++) {
    if (!whole(row)) return 0;
  }
  return *std::min_element(offsets().begin(), offsets().end());
}

void MergedCache::trim(int tokens) {
  if (tokens < 0 || tokens > trimmable()) {
    fail("[kv.trim] {} tokens, at most {} can go", tokens, trimmable());
  }
  state_.trim(tokens);
  release_rope_offsets();
}

const array& MergedCache::rope_offsets() {
  if (!rope_offsets_) {
    rope_offsets_ = array(offsets().data(), {batch_size()}, mx::int32);
  }
  return *rope_offsets_;
}

void MergedCache::release_rope_offsets() {
  rope_offsets_.reset();
  written_ = false;
}

Mask MergedCache::mask(int N, std::optional<int> window) const {
  const int offset = state_.total_offset();
  if (batch_size() == 1 && state_.left_pad()[0] <= 0 && !window) {
    return window_ > 0 ? serial_rotating_mask(N, offset, window_)
                       : serial_mask(N, offset, {});
  }
  if (window_ == 0) {
    return {Mask::Mode::array,
            batched_mask(N, offset + N, state_.left_pad(), window)};
  }
  BatchedRotatingState state = state_;
  if (N > 1 && state.rotated()) state.straighten(length());
  return {Mask::Mode::array, batched_rotating_mask(state, N, window)};
}

// Cuts a ring that many tokens at once made longer than its window.
void MergedCache::settle() {
  const int over = length() - state_.max_size();
  if (over <= 0) return;
  planes_ = storage::slice_tokens(planes_, {over, length()});
  state_.trim_overshoot(over);
}

// In temporal order, without the tokens that the next one does not see.
void MergedCache::straighten() {
  if (state_.rotated()) {
    planes_ = storage::temporal_view(planes_, state_, {});
    state_.straighten(length());
  }
  const int end = state_.ring_index(), lost = end - (state_.max_size() - 1);
  if (lost <= 0) return;
  planes_ = storage::slice_tokens(planes_, {lost, end});
  state_.drop(lost);
}

void MergedCache::grow(int N) {
  const int held = state_.total_offset(), most = state_.max_size();
  if (N == 1) {
    if (held < length() || length() >= most) return;
    planes_ = storage::pad_right(planes_, std::min(kStep, most - held));
    state_.mark_grown(held);
    return;
  }
  const int column = state_.ring_index();
  if (column + N <= length()) return;
  const int more = window_ > 0 ? N : (N + kStep - 1) / kStep * kStep;
  planes_ =
      storage::pad_right(storage::slice_tokens(planes_, {0, column}), more);
}

void MergedCache::make_room() {
  settle();
  grow(1);
  mx::eval(planes_);
}

void MergedCache::check(const array& x, const char* name) const {
  const mx::Shape want{batch_size(), form_.kv_heads, 0, form_.head_dim};
  bool good = x.ndim() == 4 && x.shape(2) > 0;
  for (int i : {0, 1, 3}) good = good && x.shape(i) == want[i];
  if (!good) {
    fail("[kv.append] expected {} [{}, {}, N, {}]", name, want[0], want[1],
         want[3]);
  }
}

Planes MergedCache::append(const array& k, const array& v) {
  check(k, "keys");
  check(v, "values");
  const int N = k.shape(2);
  if (v.shape(2) != N) fail("[kv.append] {} keys, {} values", N, v.shape(2));
  if (written_) fail("[kv.append] release_rope_offsets ends a step first");
  if (window_ == 0 && N > kMostTokens - state_.total_offset()) {
    fail("[kv.append] the most a row can hold is {} tokens", kMostTokens);
  }
  rope_offsets();  // of before
  written_ = true;
  if (N > 1) {
    straighten();
  } else {
    settle();
  }
  grow(N);
  const int column = state_.begin_write(N);
  planes_ = storage::write(planes_, form_.encode(k, v), column);
  state_.commit_write(N);
  const int total = state_.total_offset();
  const bool filling = total < state_.max_size();
  return storage::slice_tokens(planes_, {0, filling ? total : length()});
}

array MergedCache::attend(const array& q, const array& k, const array& v,
                          const MergedAttend& options) {
  const int H = q.ndim() == 4 ? q.shape(1) : 0;
  if (H == 0 || H % form_.kv_heads || q.shape(0) != batch_size() ||
      q.shape(3) != form_.head_dim || k.ndim() != 4 ||
      q.shape(2) != k.shape(2)) {
    fail("[kv.attend] queries that do not fit the keys of {}", signature());
  }
  Mask seen = mask(k.shape(2), options.window);
  Planes past = append(k, v);
  if (state_.rotated()) {
    if (seen.allow) {
      seen.allow =
          joined(*seen.allow, state_.temporal_ranges(seen.allow->shape(-1)));
    }
    past = storage::temporal_view(past, state_, {});
  }
  const auto kv = form_.decode(past);
  return form_.summed(masked_attention(q, kv.k, kv.v, seen, options));
}

}  // namespace quern
