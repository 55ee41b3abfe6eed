// Normalisation, rotary embedding and gates against f64 loops.
#include <cmath>

#include "ops/activation/gated.h"
#include "ops/norm/rms_norm.h"
#include "ops/rope/rope.h"
#include "ops/support.h"

namespace quern {
namespace {

using test::normal_floats;
using test::to_array;
using test::to_floats;

// y within `share` of the expected value, or of `floor` if that is larger.
void expect_close(const std::vector<float>& y,
                  const std::vector<double>& expected, double share,
                  double floor) {
  ASSERT_EQ(y.size(), expected.size());
  for (size_t i = 0; i < y.size(); i++) {
    ASSERT_NEAR(y[i], expected[i],
                share * std::max(std::fabs(expected[i]), floor))
        << i;
  }
}

std::vector<double> normalised(const float* x, const float* weight, int size,
                               double eps, double offset) {
  double squares = 0;
  for (int i = 0; i < size; i++) squares += double(x[i]) * x[i];
  std::vector<double> y(size);
  for (int i = 0; i < size; i++) {
    y[i] = x[i] / std::sqrt(squares / size + eps) * (weight[i] + offset);
  }
  return y;
}

class Norms : public test::OnEachIsa {};
QUERN_ON_EACH_ISA(Norms);

// A handful of roundings of 2^-24 each, and a sum of squares that is good to
// less than one more of them for each of size / lanes steps (at random).
TEST_P(Norms, AgainstDouble) {
  for (int size : {1, 3, 16, 17, 31, 64, 576, 1023, 4096}) {
    for (float scale : {1e-10f, 1e-3f, 1.f, 1e15f}) {
      SCOPED_TRACE(testing::Message() << size << " of " << scale);
      const auto x = normal_floats(3 * size, 1, scale);
      const auto weight = normal_floats(size, 2);
      for (float offset : {0.f, 1.f}) {
        std::vector<double> expected;
        for (int m = 0; m < 3; m++) {
          const auto row =
              normalised(&x[m * size], weight.data(), size, 1e-6, offset);
          expected.insert(expected.end(), row.begin(), row.end());
        }
        const auto y = to_floats(rms_norm(
            to_array(x, {3, size}), to_array(weight, {size}), 1e-6f, offset));
        // weight + offset near zero keeps the error of the sum.
        expect_close(y, expected, 2e-6, 1e-3);
      }
    }
  }
}

TEST_P(Norms, ResidualIsAddedAfter) {
  const auto x = to_array(normal_floats(2 * 3 * 50, 1), {2, 3, 50});
  const auto weight = to_array(normal_floats(50, 2), {50});
  const auto residual = normal_floats(2 * 3 * 50, 3);
  const auto plain = to_floats(rms_norm(x, weight, 1e-5f));
  const mx::array y =
      rms_norm(x, weight, 1e-5f, 0, to_array(residual, {2, 3, 50}));
  EXPECT_EQ(y.shape(), x.shape());
  const auto values = to_floats(y);
  for (size_t i = 0; i < values.size(); i++) {
    ASSERT_EQ(values[i], plain[i] + residual[i]);
  }
}

TEST_P(Norms, ARowDoesNotSeeItsCompany) {
  constexpr int kRows = 120, kSize = 333;
  const auto x = normal_floats(kRows * kSize, 1);
  const auto weight = to_array(normal_floats(kSize, 2), {kSize});
  for (int threads : {1, 3}) {
    set_threads(threads);
    const auto y =
        to_floats(rms_norm(to_array(x, {kRows, kSize}), weight, 1e-6f));
    for (int m : {0, 1, 63, kRows - 1}) {
      const std::vector<float> row(&x[m * kSize], &x[m * kSize] + kSize);
      EXPECT_TRUE(test::same_bits(
          to_floats(rms_norm(to_array(row, {kSize}), weight, 1e-6f)).data(),
          &y[m * kSize], kSize));
    }
  }
}

TEST(NormErrors, SayWhatWasExpected) {
  const mx::array x = mx::zeros({2, 8});
  const std::string weight =
      "[rms_norm] the weight must have as many numbers as x's last dimension";
  auto error = [&](const mx::array& x, const mx::array& weight,
                   std::optional<mx::array> residual = {}) {
    return test::error_of([&] { rms_norm(x, weight, 1e-6f, 0, residual); });
  };
  EXPECT_EQ(error(x, mx::zeros({7})), weight);
  EXPECT_EQ(error(x, mx::zeros({1, 8})), weight);
  EXPECT_EQ(error(mx::zeros({2, 0}), mx::zeros({0})), weight);
  EXPECT_EQ(error(mx::array(1.f), mx::zeros({1})), weight);
  EXPECT_EQ(error(x, mx::zeros({8}), mx::zeros({8})),
            "[rms_norm] the residual must have the shape of x");
}

std::vector<float> frequencies(int count) {
  std::vector<float> freq(count);
  for (int i = 0; i < count; i++) {
    freq[i] = float(std::pow(1e4, -double(i) / count));
  }
  return freq;
}

const std::vector<int32_t> kPositions = {0, 1, 7, 4095, 131071, 1000000};

TEST(RopeTable, AnglesAreTakenInDouble) {
  const auto freq = frequencies(20);
  const int T = int(kPositions.size());
  for (float factor : {1.f, 1.3f}) {
    const mx::array table =
        rope_table(mx::array(kPositions.data(), {T}, mx::int32),
                   to_array(freq, {20}), factor);
    EXPECT_EQ(table.shape(), (mx::Shape{T, 2, 20}));
    const auto values = to_floats(table);
    for (int t = 0; t < T; t++) {
      for (int i = 0; i < 20; i++) {
        const double angle = double(kPositions[t]) * freq[i];
        EXPECT_NEAR(values[t * 40 + i], factor * std::cos(angle), 2e-7);
        EXPECT_NEAR(values[t * 40 + 20 + i], factor * std::sin(angle), 2e-7);
      }
    }
  }
}

// One head, rotated in place.
void rotate(std::vector<double>& x, int head, int rotary, bool interleaved,
            int position, const std::vector<float>& freq) {
  const int half = rotary / 2;
  for (int i = 0; i < half; i++) {
    double& a = x[head + (interleaved ? 2 * i : i)];
    double& b = x[head + (interleaved ? 2 * i + 1 : i + half)];
    const double angle = double(position) * freq[i];
    const double before = a;
    a = before * std::cos(angle) - b * std::sin(angle);
    b = before * std::sin(angle) + b * std::cos(angle);
  }
}

class Rope : public test::OnEachIsa {};
QUERN_ON_EACH_ISA(Rope);

// Table, products and sum are rounded to 2^-24 each.
TEST_P(Rope, AgainstDouble) {
  const int T = int(kPositions.size()), H = 3;
  struct Sizes {
    int head_dim, rotary;
  };
  for (const Sizes& size : {Sizes{2, 2},
                            {16, 16},
                            {64, 64},
                            {72, 36},
                            {80, 20},
                            {128, 128},
                            {6, 2}}) {
    const auto [D, rotary] = size;
    const auto freq = frequencies(rotary / 2);
    const mx::array table =
        rope_table(mx::array(kPositions.data(), {T}, mx::int32),
                   to_array(freq, {rotary / 2}));
    const auto x = normal_floats(T * H * D, 1);
    const auto norm = normal_floats(D, 2);
    for (bool interleaved : {false, true}) {
      for (bool normed : {false, true}) {
        SCOPED_TRACE(testing::Message()
                     << D << "/" << rotary << (interleaved ? " pairs" : "")
                     << (normed ? " normed" : ""));
        RopeOptions options{.head_dim = D, .interleaved = interleaved};
        std::vector<double> expected(x.begin(), x.end());
        if (normed) {
          options.norm = to_array(norm, {D});
          options.norm_eps = 1e-5f;
          options.norm_offset = 1;
          for (int at = 0; at < T * H * D; at += D) {
            const auto head = normalised(&x[at], norm.data(), D, 1e-5, 1);
            std::copy(head.begin(), head.end(), expected.begin() + at);
          }
        }
        for (int at = 0; at < T * H * D; at += D) {
          rotate(expected, at, rotary, interleaved, kPositions[at / (H * D)],
                 freq);
        }
        for (int threads : {1, 3}) {
          set_threads(threads);
          const mx::array y = rope(to_array(x, {T, H * D}), table, options);
          EXPECT_EQ(y.shape(), (mx::Shape{T, H * D}));
          expect_close(to_floats(y), expected, 2e-6, 1);
        }
      }
    }
  }
}

TEST_P(Rope, ManyTokensOnAnyThreads) {
  const int T = 300, D = 64;
  const auto x = to_array(normal_floats(T * 2 * D, 1), {T, 2 * D});
  const mx::array table =
      rope_table(mx::arange(T, mx::int32), to_array(frequencies(32), {32}));
  set_threads(1);
  const auto one = to_floats(rope(x, table, {.head_dim = D}));
  set_threads(3);
  EXPECT_TRUE(test::same_bits(to_floats(rope(x, table, {.head_dim = D})), one));
}

TEST(RopeErrors, SayWhatWasExpected) {
  const std::string shapes =
      "[rope] expected x [T, H * D] and a table [T, 2, R] with 2 R <= D";
  auto error = [&](mx::Shape x, mx::Shape table, RopeOptions options) {
    return test::error_of(
        [&] { rope(mx::zeros(x), mx::zeros(table), options); });
  };
  EXPECT_EQ(error({3, 16}, {3, 2, 4}, {.head_dim = 8}), "");
  EXPECT_EQ(error({3, 2, 8}, {3, 2, 4}, {.head_dim = 8}), shapes);
  EXPECT_EQ(error({3, 15}, {3, 2, 4}, {.head_dim = 8}), shapes);
  EXPECT_EQ(error({3, 0}, {3, 2, 4}, {.head_dim = 8}), shapes);
  EXPECT_EQ(error({3, 16}, {2, 2, 4}, {.head_dim = 8}), shapes);
  EXPECT_EQ(error({3, 16}, {3, 3, 4}, {.head_dim = 8}), shapes);
  EXPECT_EQ(error({3, 16}, {3, 2, 5}, {.head_dim = 8}), shapes);
  EXPECT_EQ(error({3, 16}, {3, 2, 4}, {.head_dim = 0}), shapes);
  EXPECT_EQ(error({3, 16}, {3, 2, 4}, {.head_dim = 8, .norm = mx::zeros({7})}),
            "[rope] the norm must have 8 numbers, got 7");
}

class Gated : public test::OnEachIsa {};
QUERN_ON_EACH_ISA(Gated);

// Steps over [-110, 110] and a few far out.
std::vector<float> gate_values() {
  std::vector<float> values = {0.f,  -0.f,  1e-30f, -1e-30f, 1e4f,  -1e4f,
                               88.f, -88.f, 87.4f,  -87.4f,  3e12f, -3e12f};
  for (int i = -4400; i <= 4400; i++) values.push_back(float(i) * 0.025f);
  return values;
}

std::vector<float> gate(Gate kind, const std::vector<float>& x, float up) {
  const int size = int(x.size());
  return to_floats(
      gated(kind, to_array(x, {size}), mx::full({size}, up, mx::float32)));
}

// exp is good to 1e-7 (relative), the rest is three roundings. It stops at
// e^88.4, which leaves 5e-39 |x| of silu's far left.
TEST_P(Gated, SiluAgainstDouble) {
  const auto x = gate_values();
  const auto y = gate(Gate::silu, x, 2);
  for (size_t i = 0; i < x.size(); i++) {
    const double expected = 2 * (x[i] / (1 + std::exp(-double(x[i]))));
    ASSERT_NEAR(y[i], expected,
                4e-7 * std::fabs(expected) + 1e-38 * std::fabs(x[i]) + 1e-44)
        << x[i];
  }
}

// 1 + tanh cancels on the left: the error is a few 2^-24 of |x|.
TEST_P(Gated, GeluAgainstDouble) {
  const auto x = gate_values();
  const auto y = gate(Gate::gelu_tanh, x, 2);
  for (size_t i = 0; i < x.size(); i++) {
    const double v = x[i];
    const double inner = std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v);
    const double expected = v * (1 + std::tanh(inner));
    ASSERT_NEAR(y[i], expected, 4e-7 * std::fabs(v) + 1e-36) << x[i];
  }
}

TEST_P(Gated, NanStaysNan) {
  for (Gate kind : {Gate::silu, Gate::gelu_tanh}) {
    const auto y = gate(kind, {1.f, std::nanf(""), -1.f, 2.f, 3.f}, 1);
    EXPECT_TRUE(std::isnan(y[1]));
    for (int i : {0, 2, 3, 4}) EXPECT_TRUE(std::isfinite(y[i]));
  }
}

// An element's bits do not depend on its place or on the threads.
TEST_P(Gated, AnElementDoesNotSeeItsCompany) {
  const auto x = normal_floats(9001, 1), up = normal_floats(9001, 2);
  for (Gate kind : {Gate::silu, Gate::gelu_tanh}) {
    set_threads(1);
    const auto one =
        to_floats(gated(kind, to_array(x, {9001}), to_array(up, {9001})));
    set_threads(3);
    const auto three =
        to_floats(gated(kind, to_array(x, {9001}), to_array(up, {9001})));
    EXPECT_TRUE(test::same_bits(one, three));
    for (int at : {0, 15, 1024, 9000}) {
      const auto alone = to_floats(
          gated(kind, to_array({x[at]}, {1, 1}), to_array({up[at]}, {1, 1})));
      EXPECT_EQ(alone[0], one[at]);
    }
  }
}

TEST(GatedErrors, SayWhatWasExpected) {
  EXPECT_EQ(test::error_of([] {
              gated(Gate::silu, mx::zeros({2, 3}), mx::zeros({3, 2}));
            }),
            "[gated] gate and up must have one shape");
}

}  // namespace
}  // namespace quern
