#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/support.h"
#include "ops/weights.h"

namespace quern {
namespace {

using test::to_array;
using test::to_floats;

constexpr int kColumns = 37;  // two whole tiles and a part

class Matmul : public test::OnEachIsa {};
QUERN_ON_EACH_ISA(Matmul);

// Row m of y against the f64 product. `tolerance` is a share of sum |x| max
// |w|: f32 sums of a few hundred products, rounded at random.
void expect_row(const float* y, const float* x, const std::vector<float>& w,
                int n, int k, double tolerance) {
  const auto expected = test::product(x, w, n, k);
  const auto magnitude = test::magnitudes(x, w, n, k);
  for (int i = 0; i < n; i++) {
    ASSERT_NEAR(y[i], expected[i], tolerance * magnitude[i]) << "column " << i;
  }
}

// The product of three rows in every format; seen(format, row, k) is the row
// as the mode sees it.
template <class Seen>
void expect_products(Precision precision, Seen seen) {
  for (const auto& format : test::all_formats()) {
    for (int k : test::sizes_of_k(format)) {
      SCOPED_TRACE(format.name() + ", k " + std::to_string(k));
      const Weight w = test::random_weight(format, kColumns, k, k);
      const auto values = to_floats(dequantize(w));
      const auto x = test::normal_floats(3 * k, 2);
      const auto y = to_floats(matmul(to_array(x, {3, k}), w, precision));
      for (int m = 0; m < 3; m++) {
        const std::vector<float> row = seen(format, &x[m * k], k);
        expect_row(&y[m * kColumns], row.data(), values, kColumns, k, 1e-6);
      }
    }
  }
}

std::vector<float> as_it_is(const qmm::Format&, const float* row, int k) {
  return {row, row + k};
}

std::vector<float> in_int8(const qmm::Format& format, const float* row, int k) {
  return format.dense() ? as_it_is(format, row, k)
                        : test::rounded_to_int8(row, k);
}

TEST_P(Matmul, ExactIsTheProductWithTheDequantisedWeight) {
  expect_products(Precision::exact, as_it_is);
}

TEST_P(Matmul, FastIsTheProductWithInt8Activations) {
  expect_products(Precision::fast, in_int8);
}

// The numeric contract: a row's bits are the same alone and in any company,
// on any number of threads.
TEST_P(Matmul, ARowDoesNotSeeItsCompany) {
  constexpr int kRows = 200, kAlone = 40;
  for (const auto& format : test::main_formats()) {
    const int k = test::sizes_of_k(format).back();
    const Weight w = test::random_weight(format, kColumns, k, 3);
    const auto x = test::normal_floats(kRows * k, 4);
    for (Precision precision : {Precision::fast, Precision::exact}) {
      SCOPED_TRACE(format.name() +
                   (precision == Precision::fast ? " fast" : " exact"));
      auto rows = [&](int begin, int count) {
        const std::vector<float> part(&x[begin * k], &x[begin * k] + count * k);
        return to_floats(matmul(to_array(part, {count, k}), w, precision));
      };
      set_threads(1);
      std::vector<float> alone;
      for (int m = 0; m < kAlone; m++) {
        const auto y = rows(m, 1);
        alone.insert(alone.end(), y.begin(), y.end());
      }
      const auto last = rows(kRows - 1, 1);
      for (int threads : {1, 3}) {
        set_threads(threads);
        for (int count : {1, 2, 3, 5, 8, 16, 37, kRows}) {
          const auto y = rows(0, count);
          const int common = std::min(count, kAlone);
          ASSERT_TRUE(
              test::same_bits(y.data(), alone.data(), common * kColumns))
              << count << " rows, " << threads << " threads";
          if (count == kRows) {
            ASSERT_TRUE(test::same_bits(&y[(kRows - 1) * kColumns], last.data(),
                                        kColumns));
          }
        }
      }
    }
  }
}

// Past what a kernel takes at once of rows and of k, in every format.
TEST_P(Matmul, ManyRowsAndALongK) {
  constexpr int kRows = 139;
  for (const auto& format : test::all_formats()) {
    SCOPED_TRACE(format.name());
    // Units of 32 k that no kernel's step divides, where a block allows it.
    const bool blocks = test::sizes_of_k(format).front() % 256 == 0;
    const int k = blocks ? 2304 : 2048 + 3 * std::max(32, format.group);
    const auto x = test::normal_floats(kRows * k, 5);
    const Weight w = test::random_weight(format, kColumns, k, 6);
    const auto y =
        to_floats(matmul(to_array(x, {kRows, k}), w, Precision::fast));
    for (int m : {0, 15, 16, 127, 128, 138}) {
      const std::vector<float> row(&x[m * k], &x[m * k] + k);
      const auto alone =
          to_floats(matmul(to_array(row, {1, k}), w, Precision::fast));
      ASSERT_TRUE(test::same_bits(&y[m * kColumns], alone.data(), kColumns))
          << "row " << m;
    }
  }
}

TEST_P(Matmul, BiasesAndResidualAreAdded) {
  const Weight w =
      test::random_weight(test::main_formats()[3], kColumns, 64, 1);
  const auto x = to_array(test::normal_floats(5 * 64, 2), {5, 64});
  const auto bias = test::normal_floats(kColumns, 3);
  const auto residual = test::normal_floats(5 * kColumns, 4);
  for (Precision precision : {Precision::fast, Precision::exact}) {
    const auto plain = to_floats(matmul(x, w, precision));
    const auto y =
        to_floats(matmul(x, {w, {.biases = {to_array(bias, {kColumns})}}},
                         precision, to_array(residual, {5, kColumns})));
    for (size_t i = 0; i < y.size(); i++) {
      ASSERT_EQ(y[i], plain[i] + bias[i % kColumns] + residual[i]);
    }
  }
}

TEST_P(Matmul, WeightsThatShareX) {
  const auto formats = test::main_formats();
  const std::vector<Weight> weights = {
      test::random_weight(formats[8], 40, 256, 1),   // Q4_K
      test::random_weight(formats[0], 7, 256, 2),    // f32
      test::random_weight(formats[10], 16, 256, 3),  // Q6_K
  };
  const auto x = to_array(test::normal_floats(6 * 256, 2), {2, 3, 256});
  const auto bias = to_array(test::normal_floats(7, 3), {7});
  for (int threads : {1, 3}) {
    set_threads(threads);
    for (Precision precision : {Precision::fast, Precision::exact}) {
      const auto together = matmul_each(
          x, {weights, {.biases = {std::nullopt, bias, std::nullopt}}},
          precision);
      ASSERT_EQ(together.size(), 3u);
      for (int i = 0; i < 3; i++) {
        EXPECT_EQ(together[i].shape(), (mx::Shape{2, 3, weights[i].n}));
        ProjectionOptions options;
        if (i == 1) options.biases = {bias};
        const auto alone = matmul(x, {weights[i], options}, precision);
        EXPECT_TRUE(test::same_bits(to_floats(together[i]), to_floats(alone)));
      }
    }
  }
}

TEST_P(Matmul, StridedX) {
  const Weight w =
      test::random_weight(test::main_formats()[3], kColumns, 64, 1);
  const auto values = test::normal_floats(64 * 9, 2);
  const mx::array x = mx::transpose(to_array(values, {64, 9}));  // [9, 64]
  const auto copy = to_array(to_floats(x), {9, 64});
  for (Precision precision : {Precision::fast, Precision::exact}) {
    const auto y = to_floats(matmul(copy, w, precision));
    EXPECT_TRUE(test::same_bits(to_floats(matmul(x, w, precision)), y));
    const auto sliced = mx::slice(x, {1, 0}, {9, 64}, {3, 1});  // 1, 4, 7
    const auto part = to_floats(matmul(sliced, w, precision));
    for (int i = 0; i < 3; i++) {
      EXPECT_TRUE(test::same_bits(&part[i * kColumns],
                                  &y[(1 + 3 * i) * kColumns], kColumns));
    }
    // One row for all: stride 0.
    const auto row = mx::slice(x, {2, 0}, {3, 64});
    const auto same =
        to_floats(matmul(mx::broadcast_to(row, {4, 64}), w, precision));
    for (int i = 0; i < 4; i++) {
      EXPECT_TRUE(
          test::same_bits(&same[i * kColumns], &y[2 * kColumns], kColumns));
    }
  }
}

TEST_P(Matmul, HalfPrecisionXIsTakenAsF32) {
  const Weight w =
      test::random_weight(test::main_formats()[3], kColumns, 64, 1);
  for (mx::Dtype dtype : {mx::float16, mx::bfloat16}) {
    const auto x =
        mx::astype(to_array(test::normal_floats(2 * 64, 2), {2, 64}), dtype);
    const auto y = matmul(x, w, Precision::fast);
    EXPECT_EQ(y.dtype(), mx::float32);
    EXPECT_TRUE(test::same_bits(
        to_floats(y),
        to_floats(matmul(mx::astype(x, mx::float32), w, Precision::fast))));
  }
}

// Zeros, huge and tiny numbers keep their relative precision.
TEST_P(Matmul, RowsOfAnySize) {
  for (const auto& format : test::main_formats()) {
    const int k = test::sizes_of_k(format).back();
    const Weight w = test::random_weight(format, kColumns, k, 3);
    const auto values = to_floats(dequantize(w));
    for (float size : {0.f, 1e30f, 1e-30f}) {
      SCOPED_TRACE(format.name() + " " + std::to_string(size));
      auto x = test::normal_floats(k, 4, size > 0 ? size : 1);
      if (size == 0) x.assign(k, 0);
      const auto exact =
          to_floats(matmul(to_array(x, {1, k}), w, Precision::exact));
      const auto fast =
          to_floats(matmul(to_array(x, {1, k}), w, Precision::fast));
      expect_row(exact.data(), x.data(), values, kColumns, k, 1e-6);
      const auto seen = format.dense() ? x : test::rounded_to_int8(x.data(), k);
      expect_row(fast.data(), seen.data(), values, kColumns, k, 1e-6);
    }
  }
}

// A row with NaN or infinity gives no finite number there and leaves the
// others as they are.
TEST_P(Matmul, ARowOfNanStaysAlone) {
  constexpr int kRows = 45;  // as many as take each kernel of the best CPU
  constexpr int kBad[] = {4, 31, 44};
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const auto& format : test::main_formats()) {
    const int k = test::sizes_of_k(format).back();
    const Weight w = test::random_weight(format, kColumns, k, 3);
    auto x = test::normal_floats(kRows * k, 4);
    for (Precision precision : {Precision::fast, Precision::exact}) {
      const auto before =
          to_floats(matmul(to_array(x, {kRows, k}), w, precision));
      for (float bad : {std::nanf(""), kInfinity, -kInfinity}) {
        SCOPED_TRACE(format.name() + " " + std::to_string(bad));
        auto bad_x = x;
        for (int m : kBad) bad_x[m * k + k / 2] = bad;
        const auto y =
            to_floats(matmul(to_array(bad_x, {kRows, k}), w, precision));
        for (int m = 0; m < kRows; m++) {
          const float* row = &y[m * kColumns];
          if (std::ranges::count(kBad, m)) {
            EXPECT_TRUE(std::none_of(row, row + kColumns, [](float v) {
              return std::isfinite(v);
            })) << m;
          } else {
            EXPECT_TRUE(test::same_bits(row, &before[m * kColumns], kColumns))
                << m;
          }
        }
      }
    }
  }
}

TEST_P(Matmul, NoRows) {
  const Weight w =
      test::random_weight(test::main_formats()[3], kColumns, 64, 1);
  const auto y = matmul(mx::zeros({0, 64}), w, Precision::fast);
  EXPECT_EQ(y.shape(), (mx::Shape{0, kColumns}));
  EXPECT_TRUE(to_floats(y).empty());
}

TEST(MatmulErrors, SayWhatWasExpected) {
  const Weight w =
      test::random_weight(test::main_formats()[3], kColumns, 64, 1);
  const Weight two[] = {w, w};
  auto error = [&](const mx::array& x, std::vector<Weight> weights,
                   const ProjectionOptions& options = {},
                   std::optional<mx::array> residual = {}) {
    return test::error_of([&] {
      matmul_each(x, {std::move(weights), options}, Precision::fast, residual);
    });
  };
  const mx::array x = mx::zeros({2, 64});
  EXPECT_EQ(error(x, {}), "[matmul] needs a weight");
  EXPECT_EQ(error(mx::zeros({2, 63}), {w}),
            "[matmul] the last dimension of x must be 64, got 63");
  EXPECT_EQ(error(mx::array(1.f), {w}),
            "[matmul] the last dimension of x must be 64, got 0");
  const Weight other =
      test::random_weight(test::main_formats()[3], kColumns, 128, 1);
  EXPECT_EQ(error(x, {w, other}),
            "[matmul] weights of one x must have one K, got 64 and 128");
  EXPECT_EQ(error(x, {w, w}, {.biases = {mx::zeros({kColumns})}}),
            "[matmul] 1 biases for 2 weights");
  EXPECT_EQ(error(x, {w}, {.biases = {mx::zeros({kColumns + 1})}}),
            "[matmul] bias must have 37 numbers, got 38");
  EXPECT_EQ(error(x, {w}, {.gate = Gate::silu}),
            "[matmul] a gate takes two weights of one shape");
  EXPECT_EQ(error(x, {w}, {.norm = RmsNorm{mx::zeros({63})}}),
            "[matmul] the norm of x must have 64 numbers, got 63");
  const std::string out_norm =
      "[matmul] the result's norm must have as many numbers as the one result";
  EXPECT_EQ(error(x, {w}, {.out_norm = RmsNorm{mx::zeros({64})}}), out_norm);
  EXPECT_EQ(error(x, {w, w}, {.out_norm = RmsNorm{mx::zeros({37})}}), out_norm);
  const std::string residual =
      "[matmul] the residual must have the shape of the one result";
  for (const mx::Shape& shape :
       {mx::Shape{2, 36}, mx::Shape{1, 37}, mx::Shape{}}) {
    EXPECT_EQ(error(x, {w}, {}, mx::zeros(shape)), residual);
  }
  EXPECT_EQ(error(x, {w, w}, {}, mx::zeros({2, kColumns})), residual);
  EXPECT_EQ(error(x, {w, w}, {.gate = Gate::silu}, mx::zeros({2, kColumns})),
            "[matmul] a gated result takes no residual");
  EXPECT_EQ(
      test::error_of([&] { matmul(x, {std::vector{w, w}}, Precision::fast); }),
      "[matmul] gives 2 results, expected one");
}

// Two terms of int8: the error is what the second leaves, half a step of it,
// against the exact product; rows keep their bits in any company.
TEST_P(Matmul, FineIsCloseToExact) {
  for (const auto& format : test::main_formats()) {
    if (format.dense()) continue;
    const int k = test::sizes_of_k(format).back();
    const Weight w = test::random_weight(format, kColumns, k, 3);
    const auto bias = to_array(test::normal_floats(kColumns, 5), {kColumns});
    const Projection fine{w, {.biases = {bias}, .fine = true}};
    constexpr int kRows = 70;
    const auto x = test::normal_floats(kRows * k, 4);
    const auto residual = test::normal_floats(kRows * kColumns, 6);
    const auto y =
        to_floats(matmul(to_array(x, {kRows, k}), fine, Precision::fast,
                         to_array(residual, {kRows, kColumns})));
    const auto values = to_floats(dequantize(w));
    for (int m : {0, 1, 69}) {
      SCOPED_TRACE(format.name() + ", row " + std::to_string(m));
      const auto expected = test::product(&x[m * k], values, kColumns, k);
      const auto magnitude = test::magnitudes(&x[m * k], values, kColumns, k);
      const auto added = to_floats(bias);
      for (int i = 0; i < kColumns; i++) {
        ASSERT_NEAR(y[m * kColumns + i],
                    expected[i] + added[i] + residual[m * kColumns + i],
                    3e-5 * magnitude[i] + 1e-6)
            << i;
      }
      const std::vector<float> row(&x[m * k], &x[m * k] + k);
      const std::vector<float> own(&residual[m * kColumns],
                                   &residual[m * kColumns] + kColumns);
      EXPECT_TRUE(test::same_bits(
          to_floats(matmul(to_array(row, {1, k}), fine, Precision::fast,
                           to_array(own, {1, kColumns})))
              .data(),
          &y[m * kColumns], kColumns));
    }
  }
}

// What a projection does on its way is what the ops of their own do, bit for
// bit, for rows and columns of any number.
TEST_P(Matmul, ProjectionsAreTheirParts) {
  const auto formats = test::main_formats();
  for (size_t format : {size_t(0), size_t(3), size_t(8)}) {
    const int k = 256;
    const Weight up = test::random_weight(formats[format], kColumns, k, 1);
    const Weight gate = test::random_weight(formats[format], kColumns, k, 2);
    const auto bias = to_array(test::normal_floats(kColumns, 3), {kColumns});
    const RmsNorm norm{to_array(test::normal_floats(k, 4), {k}), 1e-5f, 1};
    const RmsNorm out_norm{
        to_array(test::normal_floats(kColumns, 5), {kColumns}), 1e-6f, 0};
    for (int rows : {1, 5, 300}) {
      const auto x = to_array(test::normal_floats(rows * k, 6), {rows, k});
      const auto residual =
          to_array(test::normal_floats(rows * kColumns, 7), {rows, kColumns});
      for (int threads : {1, 3}) {
        set_threads(threads);
        for (Precision p : {Precision::fast, Precision::exact}) {
          SCOPED_TRACE(testing::Message()
                       << formats[format].name() << ' ' << rows << " rows, "
                       << threads << " threads, exact " << int(p));
          const mx::array normed = rms_norm(x, norm);
          EXPECT_TRUE(
              test::same_bits(to_floats(matmul(x, {up, {.norm = norm}}, p)),
                              to_floats(matmul(normed, up, p))));
          for (Gate kind : {Gate::silu, Gate::gelu_tanh}) {
            const Projection both{
                {gate, up},
                {.norm = norm, .biases = {std::nullopt, bias}, .gate = kind}};
            EXPECT_TRUE(test::same_bits(
                to_floats(matmul(x, both, p)),
                to_floats(gated(kind, matmul(normed, gate, p),
                                matmul(normed, {up, {.biases = {bias}}}, p)))));
          }
          const mx::array y = matmul(x, up, p);
          EXPECT_TRUE(test::same_bits(
              to_floats(matmul(x, {up, {.out_norm = out_norm}}, p, residual)),
              to_floats(rms_norm(y, out_norm.weight, out_norm.eps,
                                 out_norm.offset, residual))));
        }
      }
    }
  }
}

// Rows of a weight, by id.
class Embedding : public test::OnEachIsa {};
QUERN_ON_EACH_ISA(Embedding);

TEST_P(Embedding, RowsAreTheDequantisedOnes) {
  for (const auto& format : test::all_formats()) {
    SCOPED_TRACE(format.name());
    const int k = test::sizes_of_k(format).back();
    const Weight w = test::random_weight(format, kColumns, k, 3);
    const auto values = to_floats(dequantize(w));
    const std::vector<int32_t> ids = {36, 0, 5, 5, 15, 16};
    const mx::array rows =
        embedding(mx::array(ids.data(), {2, 3}, mx::int32), w);
    EXPECT_EQ(rows.shape(), (mx::Shape{2, 3, k}));
    const auto y = to_floats(rows);
    for (size_t i = 0; i < ids.size(); i++) {
      for (int j = 0; j < k; j++) {
        // s * (q - zero) against s * q - s * zero: a rounding of each.
        const float expected = values[ids[i] * k + j];
        ASSERT_NEAR(y[i * k + j], expected, 1e-5 * (1 + std::fabs(expected)));
      }
    }
  }
}

TEST_P(Embedding, FactorAndIdsOutOfRange) {
  const Weight w = test::random_weight(test::main_formats()[0], 20, 24, 3);
  const auto values = to_floats(dequantize(w));
  const std::vector<int32_t> ids = {19, -1, 20, 1 << 30, 3};
  for (int threads : {1, 3}) {
    set_threads(threads);
    const auto y =
        to_floats(embedding(mx::array(ids.data(), {5}, mx::int32), w, 1.5f));
    for (int i = 0; i < 5; i++) {
      for (int j = 0; j < 24; j++) {
        if (ids[i] >= 0 && ids[i] < 20) {
          EXPECT_EQ(y[i * 24 + j], values[ids[i] * 24 + j] * 1.5f);
        } else {
          EXPECT_TRUE(std::isnan(y[i * 24 + j]));
        }
      }
    }
  }
}

}  // namespace
}  // namespace quern
