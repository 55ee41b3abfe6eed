// Which slot of its planes a token takes: host integers only.
#pragma once

namespace quern {

// The most tokens of a row in an append layout.
constexpr int kMostTokens = 1 << 26;

// The room that a row of `capacity` grows to, if it may.
constexpr int grown(int capacity) {
  const int more = capacity < 4096 ? capacity : capacity / 4;
  return capacity < kMostTokens - more ? capacity + more : kMostTokens;
}

class Layout {
 public:
  // Keeps every token: slot = position. Room grows by doubling up to 4096
  // tokens, then by a quarter, in steps of 256.
  static Layout append() { return Layout(0); }
  // Keeps the last `window` tokens and some more: slot = position modulo
  // capacity. Grows like append until it has its full capacity.
  static Layout ring(int window) { return Layout(window); }

  bool is_ring() const { return window_ > 0; }
  int window() const { return window_; }
  int length() const { return length_; }
  int capacity() const { return capacity_; }
  int slot(int position) const {
    return is_ring() ? position % capacity_ : position;
  }

  // Room that `tokens` more need: the capacity after add(tokens).
  int capacity_with(int tokens) const;
  // The least capacity that holds a row of `tokens`.
  int capacity_for(int tokens) const;
  // Tokens that fit before the capacity has to grow.
  int room() const;
  void add(int tokens);
  // Grows the capacity to hold a row of `tokens`, if it does not yet.
  void reserve(int tokens);
  // The last tokens that are there still; an append layout has them all.
  int kept() const { return length_ - lost_; }
  // An empty layout takes a row of `length` tokens, of which the last `kept`
  // are there: all, in a ring at least those that the next one sees.
  void restore(int length, int kept);
  // The most tokens that can be removed from the end: a ring needs every token
  // that the next one would see to be there still.
  int trimmable() const;
  void trim(int tokens);  // at most trimmable()

 private:
  explicit Layout(int window) : window_(window) {}

  int most() const;  // capacity

  int window_;  // 0 = append
  int length_ = 0;
  int capacity_ = 0;
  int lost_ = 0;  // the first positions, which are not there any more
};

}  // namespace quern
