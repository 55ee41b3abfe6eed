#include "ops/turbo/run.h"

#include <algorithm>

#include "ops/kernels.h"
#include "ops/numbers.h"
#include "ops/thread_pool.h"
#include "ops/turbo/format.h"

namespace quern::turbo {
namespace {

using mx::array;
using qmm::Number;

constexpr int kGrain = 64;  // rows a task takes at least

Number number_of(const mx::Dtype& dtype) {
  if (dtype == mx::float16) return Number::f16;
  return dtype == mx::bfloat16 ? Number::bf16 : Number::f32;
}

// The rows (last dimension) of an array of any strides, counted in row order.
class Rows {
 public:
  explicit Rows(const array& a)
      : array_(a),
        data_(a.data<char>()),
        size_(a.shape(-1)),
        itemsize_(int(a.itemsize())) {}

  int count() const { return size_ == 0 ? 0 : int(array_.size() / size_); }
  int size() const { return size_; }

  // Row i: where it lies, or gathered into `scratch`.
  const void* at(int64_t i, void* scratch) const {
    int64_t place = 0;
    for (int axis = int(array_.ndim()) - 2; axis >= 0; axis--) {
      place += i % array_.shape(axis) * array_.strides(axis);
      i /= array_.shape(axis);
    }
    const char* row = data_ + place * itemsize_;
    const int64_t stride = array_.strides(-1);
    if (stride == 1 || size_ == 1) return row;
    for (int j = 0; j < size_; j++) {
      std::copy_n(row + j * stride * itemsize_, itemsize_,
                  static_cast<char*>(scratch) + j * itemsize_);
    }
    return scratch;
  }

 private:
  const array& array_;
  const char* data_;
  int size_, itemsize_;
};

// A row of floats in whatever type.
class FloatRows {
 public:
  explicit FloatRows(const array& a)
      : rows_(a), number_(number_of(a.dtype())), gathered_(a.shape(-1)) {}

  void read(int64_t i, float* out) {
    kernels().widen(number_, rows_.at(i, gathered_.data()), rows_.size(), out);
  }

 private:
  Rows rows_;
  Number number_;
  std::vector<float> gathered_;
};

// The same for the few numbers of a row of scales.
class ScaleRows {
 public:
  explicit ScaleRows(const array& a)
      : rows_(a), number_(number_of(a.dtype())) {}

  const float* at(int64_t i) {
    const void* row = rows_.at(i, gathered_);
    for (int j = 0; j < rows_.size(); j++) {
      values_[j] = number_at(row, number_, j);
    }
    return values_;
  }

 private:
  static constexpr int kMost = kMostHeadDim / kGroup;
  Rows rows_;
  Number number_;
  float gathered_[kMost], values_[kMost];
};

void set_row(array& out, int64_t row, const float* x, int size) {
  kernels().narrow(number_of(out.dtype()), x, size,
                   out.data<char>() + row * size * int64_t(out.itemsize()));
}

template <class T>
T* row_of(array& a, int64_t row) {
  return a.data<T>() + row * a.shape(-1);
}

template <class Task>
void each_row(const array& a, const Task& task) {
  parallel_for(Rows(a).count(), kGrain, task);
}

}  // namespace

void run_encode_keys(const array& k, int bits, array& codes, array& scales,
                     array& zeros) {
  each_row(k, [&](int begin, int end) {
    FloatRows rows(k);
    std::vector<float> x(k.shape(-1));
    for (int row = begin; row < end; row++) {
      rows.read(row, x.data());
      kernels().encode_turbo_keys(
          x.data(), int(x.size()), bits, row_of<uint8_t>(codes, row),
          row_of<uint16_t>(scales, row), row_of<uint16_t>(zeros, row));
    }
  });
}

void run_encode_values(const array& v, int bits, array& codes, array& scales) {
  each_row(v, [&](int begin, int end) {
    FloatRows rows(v);
    float x[kMostHeadDim];
    for (int row = begin; row < end; row++) {
      rows.read(row, x);
      kernels().encode_turbo_values(x, v.shape(-1), bits,
                                    row_of<uint8_t>(codes, row),
                                    row_of<uint16_t>(scales, row));
    }
  });
}

void run_decode_keys(const KeyPlanes& planes, int bits, array& out) {
  const int D = out.shape(-1), group = D / planes.scales.shape(-1);
  each_row(out, [&](int begin, int end) {
    const Rows codes(planes.codes);
    ScaleRows scales(planes.scales), zeros(planes.zeros);
    uint8_t bytes[kMostHeadDim];
    float x[kMostHeadDim];
    for (int row = begin; row < end; row++) {
      const auto* p = static_cast<const uint8_t*>(codes.at(row, bytes));
      kernels().decode_turbo_keys(p, scales.at(row), zeros.at(row), group, D,
                                  bits, x);
      set_row(out, row, x, D);
    }
  });
}

void run_decode_values(const ValuePlanes& planes, int bits,
                       const float* centroids, const float* signs, array& out) {
  const int D = out.shape(-1), group = D / planes.scales.shape(-1);
  each_row(out, [&](int begin, int end) {
    const Rows codes(planes.codes);
    ScaleRows scales(planes.scales);
    uint8_t bytes[kMostHeadDim];
    float x[kMostHeadDim];
    for (int row = begin; row < end; row++) {
      const auto* p = static_cast<const uint8_t*>(codes.at(row, bytes));
      kernels().decode_turbo_values(p, scales.at(row), group, D, bits,
                                    centroids, x);
      if (signs) {
        kernels().fwht(x, D);
        for (int i = 0; i < D; i++) x[i] *= signs[i];
      }
      set_row(out, row, x, D);
    }
  });
}

void run_unrotate(const array& x, array& out) {
  const int D = x.shape(-1);
  each_row(x, [&](int begin, int end) {
    FloatRows rows(x);
    float y[kMostHeadDim];
    for (int row = begin; row < end; row++) {
      rows.read(row, y);
      kernels().fwht(y, D);
      for (int i = 0; i < D; i++) y[i] *= signs(D)[i];
      set_row(out, row, y, D);
    }
  });
}

}  // namespace quern::turbo
