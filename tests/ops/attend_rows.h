// Rows of made-up tokens for the tests of attention.
#pragma once

#include <algorithm>
#include <cmath>

#include "ops/attention/attention.h"
#include "ops/support.h"

namespace quern::test {

// The tokens of one row: q [T, H * D], k and v [T, kv_heads * D].
struct Tokens {
  int count, heads;
  KvShape kv;
  std::vector<float> q, k, v;

  Tokens(int count, int heads, KvShape kv, int seed)
      : count(count), heads(heads), kv(kv) {
    const int width = kv.kv_heads * kv.head_dim;
    q = normal_floats(size_t(count) * heads * kv.head_dim, seed);
    k = normal_floats(size_t(count) * width, seed + 1);
    v = normal_floats(size_t(count) * width, seed + 2);
  }
  int q_width() const { return heads * kv.head_dim; }
  int kv_width() const { return kv.kv_heads * kv.head_dim; }
};

inline mx::array part(const std::vector<float>& values, int width, int begin,
                      int end) {
  return mx::array(values.data() + size_t(begin) * width, {end - begin, width},
                   mx::float32);
}

// A row that is fed in chunks. Its planes grow as they must, a ring's up to
// its full capacity.
class Row {
 public:
  Row(const Tokens& tokens, AttendOptions options)
      : tokens_(tokens), options_(options) {}

  // The part of a call that takes `count` tokens at `begin`.
  AttendRow next(int begin, int count) const {
    const int need = qmm::round_up(std::max(done_ + count, 1), 64);
    const int most = options_.ring ? ring_capacity(options_.window) : need;
    return {begin, count, done_, std::max(std::min(need, most), capacity_),
            planes_};
  }
  void took(const AttendRow& row, const mx::array& planes) {
    done_ += row.count;
    capacity_ = row.capacity;
    planes_ = planes;
  }

  // Feeds the next `count` tokens alone.
  std::vector<float> feed(int count) {
    const AttendRow row = next(0, count);
    const int end = done_ + count;
    const Attended a = attend(part(tokens_.q, tokens_.q_width(), done_, end),
                              part(tokens_.k, tokens_.kv_width(), done_, end),
                              part(tokens_.v, tokens_.kv_width(), done_, end),
                              {row}, options_);
    took(row, a.planes[0]);
    return to_floats(a.out);
  }

  // Feeds all tokens in chunks.
  std::vector<float> feed_all(int chunk) {
    std::vector<float> out;
    while (done_ < tokens_.count) {
      const auto y = feed(std::min(chunk, tokens_.count - done_));
      out.insert(out.end(), y.begin(), y.end());
    }
    return out;
  }

  const mx::array& planes() const { return planes_; }
  int capacity() const { return capacity_; }
  int done() const { return done_; }

 private:
  const Tokens& tokens_;
  AttendOptions options_;
  int done_ = 0, capacity_ = 0;
  mx::array planes_ = mx::zeros({0}, mx::float32);
};

inline AttendOptions options_of(const KvShape& kv, int window = 0,
                                bool ring = false, float soft_cap = 0) {
  return {.kv = kv,
          .scale = 1 / std::sqrt(float(kv.head_dim)),
          .window = window,
          .soft_cap = soft_cap,
          .ring = ring};
}

}  // namespace quern::test
