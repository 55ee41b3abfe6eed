#include "kv/rotating_state.h"

#include <algorithm>

#include "base/error.h"

namespace quern {
namespace {

std::vector<int> picked(const std::vector<int>& values,
                        std::span<const int> keep) {
  std::vector<int> out;
  out.reserve(keep.size());
  for (int i : keep) out.push_back(values[i]);
  return out;
}

}  // namespace

BatchedRotatingState::BatchedRotatingState(
    int max_size, std::vector<int> left_pad,
    std::optional<std::vector<int>> offsets)
    : max_size_(max_size), left_pad_(std::move(left_pad)) {
  if (max_size <= 0) fail("[kv.state] a window of {} tokens", max_size);
  if (offsets) {
    offsets_ = std::move(*offsets);
  } else {
    for (int pad : left_pad_) offsets_.push_back(-pad);
  }
  if (offsets_.size() != left_pad_.size()) {
    fail("[kv.state] {} rows have {} offsets", left_pad_.size(),
         offsets_.size());
  }
}

int BatchedRotatingState::valid_length() const {
  return std::min(total_offset_, max_size_);
}

void BatchedRotatingState::shift_pads(int t) {
  for (int& pad : left_pad_) pad -= t;
}

void BatchedRotatingState::trim_overshoot(int t) {
  if (t <= 0) return;
  ring_index_ = max_size_;
  shift_pads(t);
}

void BatchedRotatingState::straighten(int length) {
  ring_index_ = length;
  rotated_ = false;
}

void BatchedRotatingState::drop(int t) {
  if (t <= 0) return;
  ring_index_ -= t;
  shift_pads(t);
}

int BatchedRotatingState::begin_write(int t) {
  if (ring_index_ == max_size_) {
    rotated_ = true;
    ring_index_ = 0;
  }
  if (rotated_) shift_pads(t);
  return ring_index_;
}

void BatchedRotatingState::commit_write(int t) {
  total_offset_ += t;
  ring_index_ += t;
  for (int& offset : offsets_) offset += t;
}

void BatchedRotatingState::filter(std::span<const int> keep) {
  for (int i : keep) {
    if (i < 0 || i >= batch_size()) {
      fail("[kv.filter] no row {} of {}", i, batch_size());
    }
  }
  offsets_ = picked(offsets_, keep);
  left_pad_ = picked(left_pad_, keep);
}

int BatchedRotatingState::trim(int t) {
  const int taken = std::clamp(t, 0, total_offset_);
  total_offset_ -= taken;
  ring_index_ -= taken;
  for (int& offset : offsets_) offset -= taken;
  return taken;
}

void BatchedRotatingState::restore_merged(int width, std::vector<int> offsets) {
  if (offsets.size() != left_pad_.size()) {
    fail("[kv.state] {} rows have {} offsets", left_pad_.size(),
         offsets.size());
  }
  total_offset_ = ring_index_ = width;
  offsets_ = std::move(offsets);
  rotated_ = false;
}

std::vector<Range> BatchedRotatingState::temporal_ranges(
    int buffer_length) const {
  if (ring_index_ == buffer_length) return {{0, buffer_length}};
  if (ring_index_ < total_offset_) {
    return {{ring_index_, buffer_length}, {0, ring_index_}};
  }
  return {{0, ring_index_}};
}

}  // namespace quern
