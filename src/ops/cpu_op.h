// How our ops become nodes of MLX's graph on the CPU.
#pragma once

#include <mlx/array.h>
#include <mlx/backend/cpu/encoder.h>
#include <mlx/ops.h>
#include <mlx/primitives.h>

#include <utility>
#include <vector>

#include "base/error.h"

namespace quern {

namespace mx = mlx::core;

// The stream our ops run on unless told otherwise.
inline mx::Stream stream_of(mx::StreamOrDevice s) { return mx::to_stream(s); }
inline bool on_cpu(const mx::Stream& s) { return s.device == mx::Device::cpu; }

// Memory of MLX's allocator; throws Error where there is none.
inline mx::allocator::Data allocate(size_t bytes) {
  mx::allocator::Data data = mx::allocator::malloc(bytes);
  if (!data.buffer().ptr())
    fail("out of memory: {} bytes were asked for", bytes);
  return data;
}

class CpuPrimitive : public mx::Primitive {
 public:
  CpuPrimitive(mx::Stream stream, const char* name)
      : Primitive(stream), name_(name) {}

  const char* name() const override { return name_; }
  void eval_gpu(const std::vector<mx::array>&,
                std::vector<mx::array>&) override {
    fail("[{}] has no kernel for this device", name_);
  }

 private:
  const char* name_;
};

// A primitive from a function: run(inputs, outputs) is called on the stream's
// thread with allocated, row-contiguous arrays. It must not throw.
template <class Run>
class FunctionPrimitive final : public CpuPrimitive {
 public:
  FunctionPrimitive(mx::Stream stream, const char* name, Run run)
      : CpuPrimitive(stream, name), run_(std::move(run)) {}

  void eval_cpu(const std::vector<mx::array>& inputs,
                std::vector<mx::array>& outputs) override {
    std::vector<mx::array> in, out;
    in.reserve(inputs.size());
    out.reserve(outputs.size());
    for (auto& a : inputs) in.push_back(mx::array::unsafe_weak_copy(a));
    for (auto& a : outputs) {
      a.set_data(allocate(a.nbytes()));
      out.push_back(mx::array::unsafe_weak_copy(a));
    }
    mx::cpu::get_command_encoder(stream()).dispatch(
        [run = run_, in = std::move(in), out = std::move(out)]() mutable {
          run(in, out);
        });
  }

 private:
  Run run_;
};

// The array itself if its bytes are in row order, else a copy that is.
// Outputs of our own primitives always are.
inline mx::array in_row_order(const mx::array& a, mx::Stream s) {
  const bool ours =
      a.has_primitive()
          ? dynamic_cast<const CpuPrimitive*>(&a.primitive()) != nullptr
          : a.flags().row_contiguous;
  return ours ? a : mx::contiguous(a, false, s);
}

template <class Run>
std::vector<mx::array> cpu_ops(const char* name, mx::Stream s,
                               std::vector<mx::Shape> shapes,
                               const std::vector<mx::Dtype>& dtypes,
                               std::vector<mx::array> inputs, Run run) {
  for (auto& input : inputs) input = in_row_order(input, s);
  return mx::array::make_arrays(
      std::move(shapes), dtypes,
      std::make_shared<FunctionPrimitive<Run>>(s, name, std::move(run)),
      inputs);
}

template <class Run>
mx::array cpu_op(const char* name, mx::Stream s, mx::Shape shape,
                 mx::Dtype dtype, std::vector<mx::array> inputs, Run run) {
  for (auto& input : inputs) input = in_row_order(input, s);
  return mx::array(
      std::move(shape), dtype,
      std::make_shared<FunctionPrimitive<Run>>(s, name, std::move(run)),
      std::move(inputs));
}

}  // namespace quern
