// Where rows that share one buffer of tokens stand: host integers only.
//
// The rows end together: all write the same column, and a shorter row has
// columns of padding before its first token. Once the buffer holds `max_size`
// tokens the column wraps to 0.
#pragma once

#include <optional>
#include <span>
#include <vector>

namespace quern {

struct Range {
  int begin, end;  // [begin, end)

  int size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

class BatchedRotatingState {
 public:
  // offsets: tokens each row has seen; -left_pad unless given.
  BatchedRotatingState(int max_size, std::vector<int> left_pad,
                       std::optional<std::vector<int>> offsets = {});

  int max_size() const { return max_size_; }
  int batch_size() const { return int(left_pad_.size()); }
  int ring_index() const { return ring_index_; }
  int total_offset() const { return total_offset_; }
  bool rotated() const { return rotated_; }
  const std::vector<int>& offsets() const { return offsets_; }
  // Columns before a row's first token, in temporal order; negative by the
  // tokens that the row has lost.
  const std::vector<int>& left_pad() const { return left_pad_; }

  // Tokens of the buffer that count.
  int valid_length() const;
  bool trimmable() const { return total_offset_ < max_size_; }

  // The buffer grew behind its first `prev` columns.
  void mark_grown(int prev) { ring_index_ = prev; }
  // The first t columns of a buffer longer than max_size were cut off.
  void trim_overshoot(int t);
  // The buffer was put in temporal order and holds `length` columns; then its
  // first t were cut off.
  void straighten(int length);
  void drop(int t);
  // The column that t tokens are to be written to, and that they were.
  int begin_write(int t);
  void commit_write(int t);
  // Rows keep[0], keep[1], ... in this order.
  void filter(std::span<const int> keep);
  // Takes at most t tokens from the end; how many.
  int trim(int t);
  // The buffer is one of `width` columns in temporal order.
  void restore_merged(int width, std::vector<int> offsets);

  // Columns of a buffer of that length, oldest first.
  std::vector<Range> temporal_ranges(int buffer_length) const;

 private:
  void shift_pads(int t);

  int max_size_;
  std::vector<int> offsets_, left_pad_;
  int ring_index_ = 0;    // the next column
  int total_offset_ = 0;  // columns written in all
  bool rotated_ = false;
};

}  // namespace quern
