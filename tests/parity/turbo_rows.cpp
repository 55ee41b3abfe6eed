// Encodes and decodes rows for test_turbo.py: reads f32 rows of HEAD_DIM from
// standard input and writes, for each width of keys and then of values, what
// all rows have of each plane and form.
// usage: turbo_rows HEAD_DIM plain|ISA
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/error.h"
#include "ops/kernels.h"
#include "ops/numbers.h"
#include "ops/turbo/codec.h"

namespace quern {
namespace {

using Bytes = std::vector<uint8_t>;
using Halves = std::vector<uint16_t>;
using Floats = std::vector<float>;

struct Codec {
  decltype(Kernels::encode_turbo_keys) encode_keys = turbo::encode_keys;
  decltype(Kernels::encode_turbo_values) encode_values = turbo::encode_values;
};

Codec codec_named(const std::string& name) {
  if (name == "plain") return {};
  for (Isa isa : kIsas) {
    if (isa_name(isa) != name) continue;
    use_isa(isa);
    return {kernels().encode_turbo_keys, kernels().encode_turbo_values};
  }
  fail("turbo_rows: no instruction set {}", name);
}

Floats read_floats() {
  Floats x;
  float block[4096];
  while (const size_t n = std::fread(block, sizeof(float), 4096, stdin)) {
    x.insert(x.end(), block, block + n);
  }
  return x;
}

template <class T>
void write(const std::vector<T>& values) {
  std::fwrite(values.data(), sizeof(T), values.size(), stdout);
}

Halves as_bf16(const Floats& x) {
  Halves out(x.size());
  for (size_t i = 0; i < x.size(); i++) {
    set_number(out.data(), qmm::Number::bf16, int64_t(i), x[i]);
  }
  return out;
}

// Codes, scales, zeros, decoded bf16.
void write_keys(const Codec& codec, const Floats& x, int D, int bits) {
  const size_t rows = x.size() / D, width = D * bits / 8, G = D / 32;
  Bytes codes(rows * width);
  Halves scales(rows * G), zeros(rows * G);
  Floats out(x.size());
  for (size_t r = 0; r < rows; r++) {
    codec.encode_keys(&x[r * D], D, bits, &codes[r * width], &scales[r * G],
                      &zeros[r * G]);
    turbo::decode_keys(&codes[r * width], {&scales[r * G]}, {&zeros[r * G]}, D,
                       bits, &out[r * D]);
  }
  write(codes);
  write(scales);
  write(zeros);
  write(as_bf16(out));
}

// Codes, scales, rotated bf16, eager bf16.
void write_values(const Codec& codec, const Floats& x, int D, int bits) {
  const size_t rows = x.size() / D, width = D * bits / 8, G = D / 32;
  Bytes codes(rows * width);
  Halves scales(rows * G);
  Floats out(x.size());
  for (size_t r = 0; r < rows; r++) {
    codec.encode_values(&x[r * D], D, bits, &codes[r * width], &scales[r * G]);
    turbo::decode_values(&codes[r * width], {&scales[r * G]}, D, bits,
                         turbo::centroids(bits), &out[r * D]);
  }
  write(codes);
  write(scales);
  write(as_bf16(out));
  for (size_t r = 0; r < rows; r++) turbo::unrotate(&out[r * D], D);
  write(as_bf16(out));
}

}  // namespace
}  // namespace quern

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  try {
    const int D = std::atoi(argv[1]);
    const quern::Codec codec = quern::codec_named(argv[2]);
    if (!quern::turbo::is_head_dim(D)) return 2;
    const quern::Floats x = quern::read_floats();
    for (int bits : {2, 4, 5, 8}) quern::write_keys(codec, x, D, bits);
    for (int bits : {2, 3, 4, 5, 8}) quern::write_values(codec, x, D, bits);
  } catch (const quern::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
