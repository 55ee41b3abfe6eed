// A row as a list of its tokens, encoded and decoded by the plain codecs:
// what every form of a cache is compared with.
#pragma once

#include <cmath>
#include <cstring>

#include "kv/form.h"
#include "ops/affine/codec.h"
#include "ops/numbers.h"
#include "ops/support.h"
#include "ops/turbo/codec.h"

namespace quern::test {

using Bytes = std::vector<uint8_t>;
using Floats = std::vector<float>;

struct Shape {
  int heads = 4, kv_heads = 2, head_dim = 64;
};

struct Token {
  Floats q, k, v;  // [heads or kv_heads, D]
};

// The token of a row's position, always the same.
inline Token token_of(int row, int position, const Shape& s) {
  std::mt19937 random(unsigned(row) * 100003u + unsigned(position));
  std::normal_distribution<float> normal;
  auto draw = [&](int count) {
    Floats x(count);
    for (float& value : x) value = normal(random);
    return x;
  };
  const int D = s.head_dim;
  return {draw(s.heads * D), draw(s.kv_heads * D), draw(s.kv_heads * D)};
}

// Keys or values of one token in one head, as stored and as read again.
struct Stored {
  std::vector<Bytes> planes;
  Floats values;
};

inline Floats rounded(const Floats& x, qmm::Number number, Bytes* bytes) {
  bytes->resize(x.size() * qmm::number_bytes(number));
  Floats out;
  for (size_t i = 0; i < x.size(); i++) {
    set_number(bytes->data(), number, int64_t(i), x[i]);
    out.push_back(number_at(bytes->data(), number, int64_t(i)));
  }
  return out;
}

template <class T>
Bytes bytes_of(const std::vector<T>& values) {
  Bytes out(values.size() * sizeof(T));
  std::memcpy(out.data(), values.data(), out.size());
  return out;
}

inline Stored affine_stored(const KvCodec& codec, const Floats& x) {
  const int D = int(x.size()), bits = codec.key_bits, group = codec.group;
  const size_t scales = size_t(D / group) * qmm::number_bytes(codec.number);
  Stored out{{Bytes(D * bits / 8), Bytes(scales), Bytes(scales)}, Floats(D)};
  auto& p = out.planes;
  affine::encode(x.data(), D, bits, group, codec.number, p[0].data(),
                 p[1].data(), p[2].data());
  affine::decode(p[0].data(), p[1].data(), p[2].data(), D, bits, group,
                 codec.number, out.values.data());
  return out;
}

inline Stored turbo_keys(int bits, const Floats& x) {
  const int D = int(x.size()), G = D / turbo::kGroup;
  Bytes codes(D * bits / 8);
  std::vector<uint16_t> scales(G), zeros(G);
  turbo::encode_keys(x.data(), D, bits, codes.data(), scales.data(),
                     zeros.data());
  Stored out{{codes, bytes_of(scales), bytes_of(zeros)}, Floats(D)};
  turbo::decode_keys(codes.data(), {scales.data()}, {zeros.data()}, D, bits,
                     out.values.data());
  return out;
}

inline Stored turbo_values(int bits, const Floats& x) {
  const int D = int(x.size());
  Bytes codes(D * bits / 8);
  std::vector<uint16_t> scales(D / turbo::kGroup);
  turbo::encode_values(x.data(), D, bits, codes.data(), scales.data());
  Stored out{{codes, bytes_of(scales)}, Floats(D)};
  turbo::decode_values(codes.data(), {scales.data()}, D, bits,
                       turbo::centroids(bits), out.values.data());
  turbo::unrotate(out.values.data(), D);
  return out;
}

// What is beyond f16 is kept at its end.
inline Stored raw_stored(qmm::Number number, Floats x) {
  if (number == qmm::Number::f16) {
    for (float& value : x) {
      if (std::fabs(value) > 65504) value = std::copysign(65504.f, value);
    }
  }
  Stored out{{{}}, {}};
  out.values = rounded(x, number, &out.planes[0]);
  return out;
}

inline Stored stored(const KvCodec& codec, const Floats& x, bool key) {
  if (codec.kind == KvCodec::Kind::affine) return affine_stored(codec, x);
  if (codec.kind == KvCodec::Kind::turbo) {
    return key ? turbo_keys(codec.key_bits, x)
               : turbo_values(codec.value_bits, x);
  }
  return raw_stored(codec.number, x);
}

class NaiveRow {
 public:
  NaiveRow(KvCodec codec, Shape shape, int window)
      : codec_(codec), shape_(shape), window_(window) {}

  int length() const { return int(tokens_.size()); }
  void trim(int tokens) { tokens_.resize(tokens_.size() - size_t(tokens)); }

  // The attention of the token, appended: [heads, D].
  Floats attend(const Token& token, float scale) {
    tokens_.emplace_back();
    for (int h = 0; h < shape_.kv_heads; h++) {
      tokens_.back().push_back({stored(codec_, head(token.k, h), true),
                                stored(codec_, head(token.v, h), false)});
    }
    Floats out;
    for (int h = 0; h < shape_.heads; h++) {
      const int kv = h / (shape_.heads / shape_.kv_heads);
      for (float x : attend_head(head(token.q, h), kv, scale)) out.push_back(x);
    }
    return out;
  }

  // The tokens that the layout keeps: each plane [kv_heads, T, last].
  std::vector<Bytes> planes() const {
    std::vector<Bytes> out;
    for (int h = 0; h < shape_.kv_heads; h++) {
      for (int t = first(); t < length(); t++) {
        const auto& [key, value] = tokens_[t][h];
        std::vector<Bytes> all = key.planes;
        all.insert(all.end(), value.planes.begin(), value.planes.end());
        out.resize(all.size());
        for (size_t i = 0; i < all.size(); i++) {
          out[i].insert(out[i].end(), all[i].begin(), all[i].end());
        }
      }
    }
    return out;
  }

 private:
  struct Head {
    Stored key, value;
  };

  int first() const {
    return window_ > 0 ? std::max(0, length() - window_) : 0;
  }
  Floats head(const Floats& x, int h) const {
    const int D = shape_.head_dim;
    return {x.begin() + h * D, x.begin() + (h + 1) * D};
  }

  Floats attend_head(const Floats& q, int kv, float scale) const {
    const int D = shape_.head_dim;
    std::vector<double> out(D), weights;
    double most = -1e300, sum = 0;
    for (int t = first(); t < length(); t++) {
      double score = 0;
      for (int d = 0; d < D; d++) {
        score += double(q[d]) * tokens_[t][kv].key.values[d];
      }
      weights.push_back(score * scale);
      most = std::max(most, weights.back());
    }
    for (double& w : weights) sum += w = std::exp(w - most);
    for (int t = first(); t < length(); t++) {
      for (int d = 0; d < D; d++) {
        out[d] += weights[t - first()] / sum * tokens_[t][kv].value.values[d];
      }
    }
    return {out.begin(), out.end()};
  }

  KvCodec codec_;
  Shape shape_;
  int window_;
  std::vector<std::vector<Head>> tokens_;
};

// Each plane of one row in row order.
inline std::vector<Bytes> plane_bytes(const Planes& planes) {
  std::vector<Bytes> out;
  for (const mx::array& plane : planes) {
    mx::array a = mx::contiguous(plane);
    mx::eval(a);
    const auto* p = a.data<uint8_t>();
    out.emplace_back(p, p + a.nbytes());
  }
  return out;
}

inline float largest_difference(const Floats& a, const Floats& b) {
  if (a.size() != b.size()) return INFINITY;
  float most = 0;
  for (size_t i = 0; i < a.size(); i++) {
    const float off = std::fabs(a[i] - b[i]);
    if (std::isnan(off)) return off;
    most = std::max(most, off);
  }
  return most;
}

}  // namespace quern::test
