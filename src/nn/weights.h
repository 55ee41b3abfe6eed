// The tensors of a model, by their Hugging Face names.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "files/tensor.h"
#include "nn/config.h"
#include "ops/qmm/qmm.h"

namespace quern {

// Throws Error that names the tensor where one is missing or of another shape.
class Weights {
 public:
  // `config` tells how MLX-quantised tensors are coded: its "quantization" (or
  // "quantization_config") with group_size, bits and overrides by module path.
  // Names may begin with "language_model."; here they do not.
  Weights(TensorSet tensors, const Config& config);

  // The weight [n, k] of module `path` ("model.layers.0.mlp.up_proj").
  Weight matrix(const std::string& path, int n, int k);
  // Whether module `path` has a weight.
  bool has(const std::string& path) const;
  bool has_bias(const std::string& path) const;
  // Tensor `name` of `size` numbers as f32 [size].
  mx::array vector(const std::string& name, int size);
  // The same, or nothing where the files have no such tensor.
  std::optional<mx::array> vector_if(const std::string& name, int size);

  // A tensor of a layer that nothing asked for, or an empty name. Then the
  // configuration describes another model than the file holds.
  std::string unused_layer_tensor() const;

  // Bytes of the packed matrices and vectors handed out so far.
  size_t bytes() const { return bytes_; }
  const std::string& where() const { return where_; }

 private:
  struct Code {
    int bits, group;
  };
  const TensorView* find(const std::string& name) const;
  const TensorView* take(const std::string& name);
  const TensorView& need(const std::string& name);
  Code code_of(const std::string& path) const;

  TensorSet tensors_;
  Json quantization_;
  std::string where_;
  std::set<std::string, std::less<>> taken_;
  size_t bytes_ = 0;
};

}  // namespace quern
