// What every language model offers. Const after loading: all that changes is
// in the rows (kv/row.h), which are passed in.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "nn/layers.h"

namespace quern {

// What the rest of the program wants to know of a model.
struct ModelFacts {
  std::string type;  // "llama"
  int vocabulary = 0;
  int layers = 0;
  // Of each layer's keys and values.
  std::vector<int> head_dims;
  int context = 0;          // trained length; 0 = unknown
  size_t weight_bytes = 0;  // held in memory
  size_t step_bytes = 0;    // read by a step of one token, KV apart
  size_t token_bytes = 0;   // of one token's activations in a step
  bool key_biases = false;  // added to keys, which may then be large
};

// What keys and values are kept as: f16 has eight times the precision of bf16
// for the same bytes, and what overflows it is kept at its end.
constexpr qmm::Number kv_number(Precision precision) {
  return precision == Precision::exact ? qmm::Number::f32 : qmm::Number::f16;
}

class TextModel {
 public:
  virtual ~TextModel() = default;

  // The hidden states [T, hidden] of the rows' next tokens, int32 [T], row
  // after row; every row's layers grow by its count. A row's result does not
  // depend on the other rows, nor on how its tokens are cut into calls.
  virtual mx::array hidden(const mx::array& tokens, const Step& step) const = 0;
  // Logits f32 [T, vocabulary] of hidden states.
  virtual mx::array logits(const mx::array& hidden,
                           Precision precision) const = 0;
  // An empty row. Throws Error for a codec that heads of this size do not have.
  virtual Row make_row(const KvScheme& scheme) const = 0;

  const ModelFacts& facts() const { return facts_; }

 protected:
  ModelFacts facts_;
};

}  // namespace quern
