#include "kv/interchange.h"

#include <mlx/mlx.h>

#include <cstring>

namespace quern {
namespace {

using mx::array;

// Rows of the interchange planes: each token of each head has one in each.
class TokenRows {
 public:
  // Contiguous planes [1, kv_heads, T, last].
  explicit TokenRows(Planes& planes) : tokens_(planes.at(0).shape(2)) {
    for (array& a : planes) {
      begin_.push_back(a.data<uint8_t>());
      bytes_.push_back(size_t(a.shape(3)) * a.itemsize());
    }
  }
  int tokens() const { return tokens_; }
  uint8_t* at(size_t plane, int head, int token) const {
    if (plane >= begin_.size()) return nullptr;
    return begin_[plane] +
           (size_t(head) * tokens_ + size_t(token)) * bytes_[plane];
  }
  KvToken token(int head, int token) const {
    auto row = [&](size_t plane) { return at(plane, head, token); };
    return {row(0), row(1), row(2), row(3), row(4), row(5)};
  }

 private:
  int tokens_;
  std::vector<uint8_t*> begin_;
  std::vector<size_t> bytes_;
};

// One way or the other for each token: position `first` + i is token i. Calls
// copy(number of the row's own planes, number of the interchange planes).
template <class T, class Copy>
void move_raw(const KvShape& shape, array& own, const Layout& layout, int first,
              const TokenRows& rows, Copy copy) {
  const size_t D = size_t(shape.head_dim), room = size_t(layout.capacity());
  for (int h = 0; h < shape.kv_heads; h++) {
    T* keys = own.data<T>() + h * room * D;
    T* values = own.data<T>() + (shape.kv_heads + h) * room * D;
    for (int i = 0; i < rows.tokens(); i++) {
      const size_t slot = size_t(layout.slot(first + i));
      T* k = reinterpret_cast<T*>(rows.at(0, h, i));
      T* v = reinterpret_cast<T*>(rows.at(1, h, i));
      for (size_t d = 0; d < D; d++) {
        copy(keys[(slot / 16 * D + d) * 16 + slot % 16], k[d]);
        copy(values[slot * D + d], v[d]);
      }
    }
  }
}

template <class Copy>
void move_raw(const KvShape& shape, array& own, const Layout& layout, int first,
              const TokenRows& rows, Copy copy) {
  if (own.itemsize() == 4) {
    move_raw<uint32_t>(shape, own, layout, first, rows, copy);
  } else {
    move_raw<uint16_t>(shape, own, layout, first, rows, copy);
  }
}

// move(form, block, slot in it, token)
template <class Move>
void move_codes(const KvShape& shape, array& own, const Layout& layout,
                int first, const TokenRows& rows, Move move) {
  const KvBlock form = block_of(shape.format, shape.head_dim);
  const size_t blocks = size_t(layout.capacity()) / kKvBlock;
  for (int h = 0; h < shape.kv_heads; h++) {
    uint8_t* head = own.data<uint8_t>() + h * blocks * form.bytes;
    for (int i = 0; i < rows.tokens(); i++) {
      const int slot = layout.slot(first + i);
      move(form, head + size_t(slot / kKvBlock) * form.bytes, slot % kKvBlock,
           rows.token(h, i));
    }
  }
}

Planes empty_planes(const KvForm& form, int tokens) {
  Planes planes;
  for (const array& a : form.zeros(1, tokens)) {
    planes.push_back(array(allocate(a.nbytes()), a.shape(), a.dtype()));
  }
  return planes;
}

}  // namespace

KvForm form_of(const KvShape& shape) {
  return {{shape.format}, shape.kv_heads, shape.head_dim};
}

Planes to_interchange(const KvShape& shape, const array& own,
                      const Layout& layout, Range range) {
  Planes planes = empty_planes(form_of(shape), range.size());
  if (range.size() == 0) return planes;
  const TokenRows rows(planes);
  array from = own;
  if (shape.format.raw()) {
    move_raw(shape, from, layout, range.begin, rows,
             [](const auto& own, auto& row) { row = own; });
  } else {
    move_codes(
        shape, from, layout, range.begin, rows,
        [](const KvBlock& form, const uint8_t* block, int slot,
           const KvToken& token) { take_token(form, block, slot, token); });
  }
  return planes;
}

array from_interchange(const KvShape& shape, const Planes& planes,
                       const Layout& layout) {
  Planes from;
  for (const array& a : planes) from.push_back(mx::contiguous(a));
  mx::eval(from);
  const size_t bytes = shape.bytes(layout.capacity());
  array own(allocate(bytes), shape.planes(layout.capacity()), shape.dtype());
  std::fill_n(own.data<uint8_t>(), bytes, uint8_t(0));
  const TokenRows rows(from);
  const int first = layout.length() - rows.tokens();
  if (rows.tokens() == 0) return own;
  if (shape.format.raw()) {
    move_raw(shape, own, layout, first, rows,
             [](auto& own, const auto& row) { own = row; });
  } else {
    move_codes(
        shape, own, layout, first, rows,
        [](const KvBlock& form, uint8_t* block, int slot,
           const KvToken& token) { put_token(form, token, slot, block); });
  }
  return own;
}

}  // namespace quern
