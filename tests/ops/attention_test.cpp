#include <cmath>
#include <limits>

#include "ops/attend_rows.h"
#include "ops/rope/rope.h"

namespace quern {
namespace {

using qmm::Number;
using test::normal_floats;
using test::options_of;
using test::part;
using test::Row;
using test::to_array;
using test::to_floats;
using test::Tokens;

// As a plane stores it.
double stored(Number number, float x) {
  if (number == Number::f16) return float(mx::float16_t(x));
  if (number == Number::bf16) return float(mx::bfloat16_t(x));
  return x;
}

// One token's result in f64.
std::vector<double> naive(const Tokens& t, const AttendOptions& o, int token) {
  const int D = t.kv.head_dim, group = t.heads / t.kv.kv_heads;
  const int first = o.window > 0 ? std::max(0, token + 1 - o.window) : 0;
  std::vector<double> out(t.q_width());
  for (int h = 0; h < t.heads; h++) {
    const float* q = &t.q[size_t(token) * t.q_width() + h * D];
    auto at = [&](int key) {
      return size_t(key) * t.kv_width() + h / group * D;
    };
    std::vector<double> scores;
    double most = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int key = first; key <= token; key++) {
      double s = 0;
      for (int d = 0; d < D; d++) {
        s += q[d] * stored(t.kv.format.number, t.k[at(key) + d]);
      }
      s *= o.scale;
      if (o.soft_cap > 0) s = o.soft_cap * std::tanh(s / o.soft_cap);
      scores.push_back(s);
      most = std::max(most, s);
    }
    for (double& s : scores) sum += s = std::exp(s - most);
    for (int key = first; key <= token; key++) {
      for (int d = 0; d < D; d++) {
        out[h * D + d] += scores[key - first] / sum *
                          stored(t.kv.format.number, t.v[at(key) + d]);
      }
    }
  }
  return out;
}

// Values are averages of numbers near 1; the errors of scores (2^-24 of some
// tens) are those of the weights.
constexpr double kTolerance = 5e-6;

void expect_naive(const std::vector<float>& y, const Tokens& t,
                  const AttendOptions& o, int token) {
  const auto expected = naive(t, o, token);
  for (size_t i = 0; i < expected.size(); i++) {
    ASSERT_NEAR(y[token * expected.size() + i], expected[i], kTolerance)
        << "token " << token << ", number " << i;
  }
}

class Attend : public test::OnEachIsa {};
QUERN_ON_EACH_ISA(Attend);

TEST_P(Attend, HeadSizesAndGroups) {
  const Number numbers[] = {Number::f32, Number::f16, Number::bf16};
  int i = 0;
  for (int head_dim : {1, 16, 40, 64, 72, 80, 128, 256}) {
    for (int group : {1, 3, 4, 7}) {
      const KvShape kv{numbers[i++ % 3], 2, head_dim};
      SCOPED_TRACE(testing::Message() << "D " << head_dim << ", group " << group
                                      << ", number " << int(kv.format.number));
      const Tokens t(70, 2 * group, kv, i);
      const AttendOptions o = options_of(kv);
      Row row(t, o);
      auto y = row.feed(69);
      const auto last = row.feed(1);
      y.insert(y.end(), last.begin(), last.end());
      for (int token : {0, 1, 15, 16, 63, 64, 69}) expect_naive(y, t, o, token);
    }
  }
}

// The same against the op's meaning in MLX ops, for every token.
TEST_P(Attend, IsAttendReference) {
  for (Number number : {Number::f32, Number::f16, Number::bf16}) {
    for (int window : {0, 16, 100}) {
      for (bool ring : {false, true}) {
        if (ring && window == 0) continue;
        for (float soft_cap : {0.f, 2.f}) {
          SCOPED_TRACE(testing::Message()
                       << int(number) << " window " << window << " ring "
                       << ring << " cap " << soft_cap);
          const KvShape kv{number, 2, 40};
          const Tokens t(150, 6, kv, 9);
          const AttendOptions o = options_of(kv, window, ring, soft_cap);
          Row row(t, o);
          const auto y = row.feed(t.count);
          const mx::array held =
              gather_kv(row.planes(), o, row.capacity(), 0, t.count);
          const auto expected =
              to_floats(attend_reference(to_array(t.q, {150, 6, 40}), held, o));
          ASSERT_EQ(y.size(), expected.size());
          for (size_t i = 0; i < y.size(); i++) {
            ASSERT_NEAR(y[i], expected[i], kTolerance) << i;
          }
        }
      }
    }
  }
}

TEST_P(Attend, PlanesHoldWhatWasGiven) {
  for (Number number : {Number::f32, Number::f16, Number::bf16}) {
    const KvShape kv{number, 3, 20};
    const Tokens t(100, 3, kv, 4);
    const AttendOptions o = options_of(kv);
    Row row(t, o);
    row.feed_all(33);  // grows at 64
    const auto held =
        to_floats(gather_kv(row.planes(), o, row.capacity(), 0, 100));
    for (int token = 0; token < 100; token++) {
      for (int h = 0; h < 3; h++) {
        for (int d = 0; d < 20; d++) {
          const int from = (token * 3 + h) * 20 + d;
          const int at = (h * 100 + token) * 20 + d;
          ASSERT_EQ(held[at], float(stored(number, t.k[from])));
          ASSERT_EQ(held[at + 6000], float(stored(number, t.v[from])));
        }
      }
    }
  }
}

// Several turns of the ring, in chunks that are not its size.
TEST_P(Attend, RingsWrap) {
  for (int window : {1, 16, 100, 512}) {
    const KvShape kv{window == 16 ? Number::bf16 : Number::f32, 1, 24};
    const int count = 2 * ring_capacity(window) + 150;
    const Tokens t(count, 2, kv, window);
    const AttendOptions ring = options_of(kv, window, true);
    SCOPED_TRACE(testing::Message() << "window " << window);
    Row row(t, ring);
    const auto y = row.feed_all(113);
    EXPECT_EQ(row.capacity(), ring_capacity(window));
    for (int token = 0; token < count; token += 37) {
      expect_naive(y, t, ring, token);
    }
    // The window on an append cache, bit by bit.
    const auto append = Row(t, options_of(kv, window)).feed_all(count);
    EXPECT_TRUE(test::same_bits(y, append));
    for (int chunk : {64, 256, 300}) {
      EXPECT_TRUE(test::same_bits(Row(t, ring).feed_all(chunk), y))
          << "chunks of " << chunk;
    }
    const auto held = to_floats(
        gather_kv(row.planes(), ring, row.capacity(), count - window, count));
    for (int i = 0; i < window * 24; i++) {
      ASSERT_EQ(held[i], float(stored(kv.format.number,
                                      t.k[(count - window) * 24 + i])));
    }
  }
}

TEST_P(Attend, ChunksAndThreadsDoNotMatter) {
  const KvShape kv{Number::bf16, 2, 40};
  const Tokens t(700, 6, kv, 5);  // two splits of keys
  for (int window : {0, 100}) {
    const AttendOptions o = options_of(kv, window);
    set_threads(1);
    const auto whole = Row(t, o).feed_all(t.count);
    for (int token : {0, 511, 512, 699}) expect_naive(whole, t, o, token);
    for (int threads : {1, 3}) {
      set_threads(threads);
      for (int chunk : {1, 7, 64, 256, 300, 700}) {
        EXPECT_TRUE(test::same_bits(Row(t, o).feed_all(chunk), whole))
            << "chunks of " << chunk << ", window " << window << ", " << threads
            << " threads";
      }
    }
  }
}

// Contexts of several splits, decoded.
TEST_P(Attend, LongContexts) {
  const KvShape kv{Number::f16, 1, 24};
  const Tokens t(1510, 2, kv, 6);
  for (int window : {0, 600}) {
    for (float soft_cap : {0.f, 3.f}) {
      const AttendOptions o = options_of(kv, window, false, soft_cap);
      SCOPED_TRACE(testing::Message() << "window " << window);
      const auto whole = Row(t, o).feed_all(t.count);
      Row row(t, o);
      for (int at : {512, 1023, 1024, 1025, 1500}) {
        row.feed(at - row.done());
        for (int threads : {1, 3}) {
          set_threads(threads);
          Row branch = row;
          const auto y = branch.feed(1);
          EXPECT_TRUE(
              test::same_bits(y.data(), &whole[at * t.q_width()], y.size()))
              << at << ", " << threads << " threads";
        }
        expect_naive(whole, t, o, at);
      }
    }
  }
}

// Rows of other lengths in one call, one of them with nothing to add.
class RaggedCall {
 public:
  static constexpr int kRows = 6;

  explicit RaggedCall(const AttendOptions& o) {
    for (int i = 0; i < kRows; i++) {
      tokens_.push_back(Tokens(kLengths[i] + kCounts[i], 6, o.kv, 10 * i));
    }
    std::vector<mx::array> q, k, v;
    int begin = 0;
    for (int i = 0; i < kRows; i++) {
      const Tokens& t = tokens_[i];
      Row row(t, o);
      row.feed(kLengths[i]);
      rows.push_back(row.next(begin, kCounts[i]));
      begin += kCounts[i];
      q.push_back(part(t.q, t.q_width(), kLengths[i], t.count));
      k.push_back(part(t.k, t.kv_width(), kLengths[i], t.count));
      v.push_back(part(t.v, t.kv_width(), kLengths[i], t.count));
    }
    result = attend(mx::concatenate(q, 0), mx::concatenate(k, 0),
                    mx::concatenate(v, 0), rows, o);
  }

  // Row i alone: its result, and itself with the planes.
  std::pair<std::vector<float>, Row> alone(int i,
                                           const AttendOptions& o) const {
    Row row(tokens_[i], o);
    row.feed(kLengths[i]);
    auto out = row.feed(kCounts[i]);
    return {std::move(out), row};
  }

  std::vector<AttendRow> rows;
  Attended result{mx::array(0), mx::array(0), {}};

 private:
  static constexpr int kLengths[] = {3, 600, 1, 129, 64, 40};
  static constexpr int kCounts[] = {1, 1, 20, 300, 0, 1};
  std::vector<Tokens> tokens_;
};

TEST_P(Attend, ARowDoesNotSeeItsCompany) {
  const KvShape kv{Number::bf16, 2, 40};
  for (bool ring : {false, true}) {
    const AttendOptions o = options_of(kv, ring ? 100 : 0, ring);
    for (int threads : {1, 3}) {
      set_threads(threads);
      const RaggedCall call(o);
      const auto out = to_floats(call.result.out);
      for (int i = 0; i < RaggedCall::kRows; i++) {
        SCOPED_TRACE(testing::Message() << "row " << i << " ring " << ring);
        const auto [y, row] = call.alone(i, o);
        EXPECT_TRUE(test::same_bits(&out[call.rows[i].begin * 6 * 40], y.data(),
                                    y.size()));
        const int from = ring ? std::max(0, row.done() - 100) : 0;
        const mx::array& planes = call.result.planes[i];
        EXPECT_EQ(planes.shape(), kv.planes(row.capacity()));
        EXPECT_TRUE(test::same_bits(
            to_floats(gather_kv(planes, o, row.capacity(), from, row.done())),
            to_floats(
                gather_kv(row.planes(), o, row.capacity(), from, row.done()))));
      }
    }
  }
}

// Append planes: an older value reads right up to its own length, also when
// the newer one has gone on in place.
TEST_P(Attend, OlderPlanesStillRead) {
  const KvShape kv{Number::f32, 2, 16};
  const Tokens t(120, 2, kv, 3);
  const AttendOptions o = options_of(kv);
  Row row(t, o);
  row.feed(70);
  const Row older = row;  // shares planes with room for 128
  const auto before =
      to_floats(gather_kv(older.planes(), o, older.capacity(), 0, 70));
  row.feed(50);
  EXPECT_TRUE(test::same_bits(
      to_floats(gather_kv(older.planes(), o, older.capacity(), 0, 70)),
      before));
  EXPECT_TRUE(test::same_bits(
      to_floats(gather_kv(row.planes(), o, row.capacity(), 0, 70)), before));
}

// Not a number in one row stays there.
TEST_P(Attend, NanStaysInItsRow) {
  const KvShape kv{Number::f32, 1, 16};
  const AttendOptions o = options_of(kv);
  const Tokens good(20, 2, kv, 3);
  Tokens bad(20, 2, kv, 4);
  bad.q.assign(bad.q.size(), std::nanf(""));
  const Row rows[] = {Row(bad, o), Row(good, o), Row(bad, o)};
  const std::vector<AttendRow> call = {
      rows[0].next(0, 20), rows[1].next(20, 20), rows[2].next(40, 20)};
  auto join = [&](const std::vector<float>& a, const std::vector<float>& b,
                  int width) {
    return mx::concatenate(
        {part(a, width, 0, 20), part(b, width, 0, 20), part(a, width, 0, 20)},
        0);
  };
  const auto out =
      to_floats(attend(join(bad.q, good.q, 32), join(bad.k, good.k, 16),
                       join(bad.v, good.v, 16), call, o)
                    .out);
  const auto alone = Row(good, o).feed(20);
  EXPECT_TRUE(test::same_bits(&out[20 * 32], alone.data(), alone.size()));
  for (int i = 0; i < 20 * 32; i++) {
    ASSERT_TRUE(std::isnan(out[i])) << i;
    ASSERT_TRUE(std::isnan(out[40 * 32 + i])) << i;
  }
}

// Norms and rotation inside are those of rope, bit for bit: for one token, for
// many, and for contexts of several splits.
TEST_P(Attend, TurnsHeadsAsRopeDoes) {
  for (int head_dim : {16, 40}) {
    const KvShape kv{Number::f16, 2, head_dim};
    const Tokens t(600, 6, kv, 3);
    const auto norm_of = [&](int seed) {
      return RmsNorm{to_array(normal_floats(head_dim, seed), {head_dim}), 1e-6f,
                     1};
    };
    const auto freq = to_array(normal_floats(head_dim / 2 - 2, 7),
                               {head_dim / 2 - 2});  // the last four stay
    for (bool norms : {false, true}) {
      for (bool interleaved : {false, true}) {
        SCOPED_TRACE(testing::Message()
                     << "D " << head_dim << " norms " << norms
                     << " interleaved " << interleaved);
        const AttendOptions plain = options_of(kv);
        AttendOptions o = plain;
        o.interleaved_rope = interleaved;
        if (norms) {
          o.q_norm = norm_of(8);
          o.k_norm = norm_of(9);
        }
        const auto turned = [&](const mx::array& x,
                                const std::optional<RmsNorm>& norm,
                                const mx::array& table) {
          RopeOptions rope_options{.head_dim = head_dim,
                                   .interleaved = interleaved};
          if (norm) {
            rope_options.norm = norm->weight;
            rope_options.norm_eps = norm->eps;
            rope_options.norm_offset = norm->offset;
          }
          return rope(x, table, rope_options);
        };
        const mx::array none = mx::zeros({0});
        AttendRow inside{0, 0, 0, 640, none}, outside = inside;
        for (int end : {70, 71, 599, 600}) {
          const int begin = inside.start + inside.count;
          for (AttendRow* row : {&inside, &outside}) {
            row->start = begin;
            row->count = end - begin;
          }
          const mx::array q = part(t.q, t.q_width(), begin, end);
          const mx::array k = part(t.k, t.kv_width(), begin, end);
          const mx::array v = part(t.v, t.kv_width(), begin, end);
          const mx::array table =
              rope_table(mx::arange(begin, end, mx::int32), freq);
          const Attended a = attend(q, k, v, {inside}, o, table);
          const Attended b =
              attend(turned(q, o.q_norm, table), turned(k, o.k_norm, table), v,
                     {outside}, plain);
          EXPECT_TRUE(test::same_bits(to_floats(a.out), to_floats(b.out)))
              << "up to " << end;
          inside.planes = a.planes[0];
          outside.planes = b.planes[0];
        }
      }
    }
  }
}

// A call is told what its planes wait for: nothing is evaluated in between.
TEST_P(Attend, StepsUnderWay) {
  const KvShape kv{Number::f16, 2, 16};
  const Tokens t(40, 4, kv, 3);
  const AttendOptions o = options_of(kv);
  const auto expected = Row(t, o).feed_all(8);
  AttendRow row{0, 8, 0, 64, mx::zeros({0})};
  std::vector<mx::array> outs;
  for (int begin = 0; begin < 40; begin += 8) {
    row.start = begin;
    const Attended a =
        attend(part(t.q, t.q_width(), begin, begin + 8),
               part(t.k, t.kv_width(), begin, begin + 8),
               part(t.v, t.kv_width(), begin, begin + 8), {row}, o);
    row.planes = a.planes[0];
    row.after = a.done;
    outs.push_back(a.out);
  }
  mx::eval(outs.back());  // and all before it
  EXPECT_TRUE(test::same_bits(to_floats(mx::concatenate(outs, 0)), expected));
}

TEST_P(Attend, StridedInputs) {
  const KvShape kv{Number::f32, 2, 16};
  const Tokens t(30, 4, kv, 3);
  const AttendOptions o = options_of(kv);
  const Row row(t, o);
  const AttendRow call = row.next(0, 30);
  auto turned = [](const std::vector<float>& values, int width) {
    const mx::array a = part(values, width, 0, 30);
    return mx::transpose(mx::contiguous(mx::transpose(a)));
  };
  const auto y = to_floats(
      attend(turned(t.q, 64), turned(t.k, 32), turned(t.v, 32), {call}, o).out);
  EXPECT_TRUE(test::same_bits(y, Row(t, o).feed(30)));
}

TEST(AttendErrors, SayWhatWasExpected) {
  const AttendOptions append = options_of({Number::f32, 2, 16});
  const AttendOptions ring = options_of({Number::f32, 2, 16}, 64, true);
  auto error = [](mx::Shape q, mx::Shape kv, const AttendRow& row,
                  const AttendOptions& o) {
    return test::error_of(
        [&] { attend(mx::zeros(q), mx::zeros(kv), mx::zeros(kv), {row}, o); });
  };
  const mx::array none = mx::zeros({0});
  const std::string shapes = "[attend] expected q [T, n * 32], k and v [T, 32]";
  const AttendRow fine{0, 3, 0, 64, none};
  EXPECT_EQ(error({3, 64}, {3, 32}, fine, append), "");
  EXPECT_EQ(error({3, 48}, {3, 32}, fine, append), shapes);
  EXPECT_EQ(error({3, 64}, {3, 64}, fine, append), shapes);
  EXPECT_EQ(error({3, 64}, {4, 32}, fine, append), shapes);
  EXPECT_EQ(error({192}, {3, 32}, fine, append), shapes);
  EXPECT_EQ(error({3, 64}, {3, 32}, fine, options_of({Number::f32, 0, 16})),
            "[attend] needs a KV head of at least one number");
  auto bad_row = [&](const AttendRow& row, const AttendOptions& o) {
    return error({3, 64}, {3, 32}, row, o)
               .rfind("[attend] a row of tokens", 0) == 0;
  };
  const mx::array planes = mx::zeros({4, 64 * 16});
  EXPECT_FALSE(bad_row({0, 3, 61, 64, planes}, append));
  EXPECT_TRUE(bad_row({1, 3, 0, 64, none}, append));
  EXPECT_TRUE(bad_row({-1, 3, 0, 64, none}, append));
  EXPECT_TRUE(bad_row({0, -1, 0, 64, none}, append));
  EXPECT_TRUE(bad_row({0, 3, -1, 64, none}, append));
  EXPECT_TRUE(bad_row({0, 3, 62, 64, planes}, append));   // no room
  EXPECT_TRUE(bad_row({0, 3, 0, 100, none}, append));     // not of 64
  EXPECT_TRUE(bad_row({0, 3, 10, 64, none}, append));     // no past
  EXPECT_TRUE(bad_row({0, 3, 65, 128, planes}, append));  // less past
  EXPECT_TRUE(bad_row({0, 3, 10, 64, mx::zeros({8, 64 * 16})}, append));
  EXPECT_TRUE(bad_row({0, 3, 10, 64, mx::zeros({4, 128 * 16})}, append));
  EXPECT_TRUE(
      bad_row({0, 3, 10, 64, mx::zeros({4, 64 * 16}, mx::float16)}, append));
  EXPECT_FALSE(bad_row({0, 3, 64, 128, planes}, ring));  // grows
  EXPECT_FALSE(bad_row({0, 3, 900, 320, mx::zeros({4, 320 * 16})}, ring));
  EXPECT_TRUE(bad_row({0, 3, 320, 384, mx::zeros({4, 256 * 16})}, ring));
  EXPECT_TRUE(bad_row({0, 3, 254, 256, mx::zeros({4, 256 * 16})}, ring));
  for (int window : {-1, 0, kMostWindow + 1}) {
    EXPECT_EQ(error({3, 64}, {3, 32}, fine,
                    options_of({Number::f32, 2, 16}, window, true)),
              fmt::format("[attend] the window must be in [1, {}] for a ring, "
                          "got {}",
                          kMostWindow, window));
  }
}

}  // namespace
}  // namespace quern
