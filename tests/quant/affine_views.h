// MLX's quantised form as the tensors of a model file.
#pragma once

#include <mlx/mlx.h>

#include <vector>

#include "files/tensor.h"

namespace quern::test {

// Owns codes, scales and biases; the views point into it.
class AffineViews {
 public:
  explicit AffineViews(std::vector<mlx::core::array> parts)
      : parts_(std::move(parts)) {
    for (auto& part : parts_) part = mlx::core::contiguous(part);
    mlx::core::eval(parts_);
  }

  const mlx::core::array& array(int i) const { return parts_[i]; }
  TensorView codes() const { return view("codes", 0, TensorType::U32); }
  TensorView scales() const { return view("scales", 1, number()); }
  TensorView biases() const { return view("biases", 2, number()); }

 private:
  TensorType number() const {
    if (parts_[1].dtype() == mlx::core::float32) return TensorType::F32;
    return parts_[1].dtype() == mlx::core::float16 ? TensorType::F16
                                                   : TensorType::BF16;
  }
  TensorView view(const char* name, int i, TensorType type) const {
    const auto& a = parts_[i];
    return {name,
            type,
            {a.shape(0), a.shape(1)},
            {reinterpret_cast<const std::byte*>(a.data<uint8_t>()), a.nbytes()},
            nullptr};
  }

  std::vector<mlx::core::array> parts_;
};

}  // namespace quern::test
