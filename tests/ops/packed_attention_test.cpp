// Attention on codes against the numbers they decode to.
#include <pthread.h>

#include <random>

#include "ops/affine/codec.h"
#include "ops/attend_rows.h"
#include "ops/thread_pool.h"
#include "ops/turbo/codec.h"

namespace quern {
namespace {

using qmm::Number;
using test::options_of;
using test::part;
using test::Row;
using test::to_array;
using test::to_floats;
using test::Tokens;

KvFormat turbo_form(int key_bits, int value_bits) {
  return {KvFormat::Kind::turbo, key_bits, value_bits, 32, Number::f16};
}
KvFormat affine_form(int bits, int group, Number number = Number::f16) {
  return {KvFormat::Kind::affine, bits, bits, group, number};
}

std::vector<KvFormat> all_forms() {
  std::vector<KvFormat> forms;
  for (int k : {2, 4, 5, 8}) {
    for (int v : {2, 3, 4, 5, 8}) forms.push_back(turbo_form(k, v));
  }
  for (int bits : {4, 8}) {
    for (int group : {32, 64}) {
      forms.push_back(affine_form(bits, group));
      forms.push_back(affine_form(bits, group, Number::bf16));
    }
  }
  forms.push_back(affine_form(8, 64, Number::f32));
  return forms;
}
// One of each way through the kernels.
std::vector<KvFormat> some_forms() {
  return {turbo_form(8, 3),   turbo_form(8, 8),
          turbo_form(4, 4),   turbo_form(5, 5),
          turbo_form(2, 2),   affine_form(4, 64),
          affine_form(8, 32), affine_form(8, 64, Number::bf16)};
}

std::string name_of(const KvFormat& f) {
  return fmt::format("{}{} {} bits, groups of {}, number {}",
                     f.kind == KvFormat::Kind::turbo ? "turbo k" : "affine ",
                     f.key_bits, f.value_bits, f.group, int(f.number));
}

// A token's planes in vectors of their true sizes.
struct Planes {
  std::vector<uint8_t> key_codes, value_codes, scales[4];

  explicit Planes(const KvBlock& b)
      : key_codes(b.head_dim * b.key_bits / 8),
        value_codes(b.head_dim * b.value_bits / 8) {
    for (auto& s : scales) {
      s.resize(b.head_dim / b.group * qmm::number_bytes(b.number));
    }
  }
  KvToken token() {
    return {key_codes.data(),   scales[0].data(), scales[1].data(),
            value_codes.data(), scales[2].data(), scales[3].data()};
  }
  bool operator==(const Planes& o) const {
    return key_codes == o.key_codes && value_codes == o.value_codes &&
           std::equal(scales, scales + 4, o.scales);
  }
};

TEST(KvBlocks, ArePermutationsOfThePlanes) {
  std::mt19937 random(3);
  for (const KvFormat& form : all_forms()) {
    for (int head_dim : {64, 128, 256, 512}) {
      SCOPED_TRACE(name_of(form) + fmt::format(", D {}", head_dim));
      const KvBlock b = block_of(form, head_dim);
      const size_t numbers =
          size_t(head_dim / form.group) * qmm::number_bytes(form.number);
      ASSERT_EQ(size_t(b.bytes),
                64 * (head_dim * (form.key_bits + form.value_bits) / 8 +
                      numbers * (b.turbo ? 3 : 4)));
      std::vector<Planes> tokens;
      std::vector<uint8_t> block(b.bytes, 0xff);  // what was there before
      std::vector<int> order(64);
      for (int i = 0; i < 64; i++) order[i] = i;
      for (int i = 0; i < 64; i++) {
        Planes p(b);
        for (auto* bytes : {&p.key_codes, &p.value_codes, &p.scales[0],
                            &p.scales[1], &p.scales[2]}) {
          for (uint8_t& x : *bytes) x = uint8_t(random());
        }
        if (!b.turbo) {
          for (uint8_t& x : p.scales[3]) x = uint8_t(random());
        }
        tokens.push_back(std::move(p));
      }
      std::shuffle(order.begin(), order.end(), random);
      for (int i : order) put_token(b, tokens[i].token(), i, block.data());
      for (int i = 0; i < 64; i++) {
        Planes got(b);
        take_token(b, block.data(), i, got.token());
        ASSERT_TRUE(got == tokens[i]) << "token " << i;
      }
    }
  }
}

class PackedAttend : public test::OnEachIsa {};
QUERN_ON_EACH_ISA(PackedAttend);

AttendOptions exactly(AttendOptions o) {
  o.precision = Precision::exact;
  return o;
}

// The length of the error, of that of `want`.
double relative_error(const std::vector<float>& y,
                      const std::vector<float>& want) {
  double error = 0, length = 0;
  for (size_t i = 0; i < y.size(); i++) {
    error += std::pow(double(y[i]) - want[i], 2);
    length += std::pow(double(want[i]), 2);
  }
  return std::sqrt(error / length);
}

// y of a row against its decoded keys and values.
double error_of(const Row& row, const Tokens& t, const AttendOptions& o,
                const std::vector<float>& y) {
  const mx::array held = gather_kv(row.planes(), o, row.capacity(), 0, t.count);
  const mx::array q = to_array(t.q, {t.count, t.heads, t.kv.head_dim});
  return relative_error(y, to_floats(attend_reference(q, held, o)));
}

constexpr double kExact = 1e-4, kFast = 1.5e-2;

TEST_P(PackedAttend, EveryFormIsItsDecodedNumbers) {
  int i = 0;
  const int groups[] = {1, 3, 4, 7, 8}, dims[] = {64, 128, 256, 512};
  for (const KvFormat& form : all_forms()) {
    const int D = dims[i % 4], group = groups[i % 5];
    i++;
    SCOPED_TRACE(name_of(form) + fmt::format(", D {}, group {}", D, group));
    const KvShape kv{form, 2, D};
    const Tokens t(150, 2 * group, kv, i);
    const AttendOptions o = options_of(kv);
    for (const AttendOptions& with : {o, exactly(o)}) {
      Row row(t, with);
      auto y = row.feed(149);
      const auto last = row.feed(1);
      y.insert(y.end(), last.begin(), last.end());
      EXPECT_LT(error_of(row, t, with, y),
                with.precision == Precision::exact ? kExact : kFast);
    }
  }
}

TEST_P(PackedAttend, WindowsRingsAndSoftCaps) {
  for (const KvFormat& form : some_forms()) {
    for (int window : {0, 16, 100}) {
      for (bool ring : {false, true}) {
        if (ring && window == 0) continue;
        for (float soft_cap : {0.f, 2.f}) {
          SCOPED_TRACE(name_of(form) + fmt::format(", window {} ring {} cap {}",
                                                   window, ring, soft_cap));
          const KvShape kv{form, 2, 64};
          const Tokens t(150, 6, kv, 9);
          const AttendOptions o = options_of(kv, window, ring, soft_cap);
          Row row(t, o);
          EXPECT_LT(error_of(row, t, o, row.feed(t.count)), kFast);
          Row exact(t, exactly(o));
          EXPECT_LT(error_of(exact, t, o, exact.feed(t.count)), kExact);
        }
      }
    }
  }
}

// All keys weigh about the same: what is left of random values is small, and
// bytes that on the whole lie too high or too low would show.
TEST_P(PackedAttend, RoundingOfManyValuesAveragesOut) {
  for (int bits : {2, 3, 4, 5, 8}) {
    SCOPED_TRACE(bits);
    const KvShape kv{turbo_form(8, bits), 1, 64};
    Tokens t(512, 2, kv, 31);
    for (float& x : t.q) x *= 0.05f;
    const AttendOptions o = options_of(kv);
    Row row(t, o);
    row.feed(t.count - 1);
    const auto last = row.feed(1);
    const mx::array held =
        gather_kv(row.planes(), o, row.capacity(), 0, t.count);
    const auto all =
        to_floats(attend_reference(to_array(t.q, {t.count, 2, 64}), held, o));
    EXPECT_LT(relative_error(last, {all.end() - 128, all.end()}), kFast);
  }
}

// A token that sees itself alone is its value as the kernels read it.
TEST_P(PackedAttend, ValuesOfEightBitsKeepTheirQuality) {
  const KvShape kv{turbo_form(8, 8), 1, 128};
  const Tokens t(500, 1, kv, 21);
  const AttendOptions o = options_of(kv, 1);
  Row row(t, o);
  const auto y = row.feed(t.count);
  EXPECT_LT(std::pow(relative_error(y, t.v), 2), 1.1e-4);
  EXPECT_LT(error_of(row, t, o, y), 3e-3);
}

std::vector<uint8_t> bytes_of(const mx::array& planes) {
  const auto* p = planes.data<uint8_t>();
  return {p, p + planes.nbytes()};
}

TEST_P(PackedAttend, HoldsTheCodesOfTheCodec) {
  for (const KvFormat& form : some_forms()) {
    SCOPED_TRACE(name_of(form));
    const KvShape kv{form, 3, 128};
    const Tokens t(100, 3, kv, 4);
    Row row(t, options_of(kv));
    row.feed_all(33);  // grows at 64
    const KvBlock b = block_of(form, 128);
    EXPECT_EQ(row.planes().nbytes(), size_t(3) * 2 * b.bytes);
    for (int token = 0; token < 100; token++) {
      for (int h = 0; h < 3; h++) {
        const float* k = &t.k[(token * 3 + h) * 128];
        const float* v = &t.v[(token * 3 + h) * 128];
        Planes want(b), got(b);
        const KvToken w = want.token();
        if (b.turbo) {
          turbo::encode_keys(k, 128, form.key_bits, w.key_codes,
                             (uint16_t*)w.key_scales, (uint16_t*)w.key_zeros);
          turbo::encode_values(v, 128, form.value_bits, w.value_codes,
                               (uint16_t*)w.value_scales);
        } else {
          affine::encode(k, 128, form.key_bits, form.group, form.number,
                         w.key_codes, w.key_scales, w.key_zeros);
          affine::encode(v, 128, form.value_bits, form.group, form.number,
                         w.value_codes, w.value_scales, w.value_biases);
        }
        const uint8_t* block =
            row.planes().data<uint8_t>() + (h * 2 + token / 64) * b.bytes;
        take_token(b, block, token % 64, got.token());
        ASSERT_TRUE(got == want) << "token " << token << ", head " << h;
      }
    }
  }
}

// Bits of results and bytes of planes, for any cut of the row into calls.
TEST_P(PackedAttend, ChunksAndThreadsDoNotMatter) {
  for (const KvFormat& form : some_forms()) {
    for (bool exact : {false, true}) {
      const KvShape kv{form, 2, 64};
      const Tokens t(600, 6, kv, 5);  // two splits of keys
      AttendOptions o = options_of(kv, exact ? 100 : 0);
      if (exact) o.precision = Precision::exact;
      SCOPED_TRACE(name_of(form));
      set_threads(1);
      Row whole(t, o);
      const auto y = whole.feed_all(t.count);
      for (int threads : {1, 3}) {
        set_threads(threads);
        for (int chunk : {1, 7, 64, 300, 600}) {
          Row row(t, o);
          EXPECT_TRUE(test::same_bits(row.feed_all(chunk), y))
              << "chunks of " << chunk << ", " << threads << " threads";
          EXPECT_EQ(bytes_of(row.planes()), bytes_of(whole.planes()));
        }
      }
    }
  }
}

TEST_P(PackedAttend, RingsWrap) {
  for (const KvFormat& form : some_forms()) {
    for (int window : {1, 100}) {
      const KvShape kv{form, 1, 64};
      const int count = 3 * ring_capacity(window) + 50;
      const Tokens t(count, 2, kv, window);
      const AttendOptions ring = options_of(kv, window, true);
      SCOPED_TRACE(name_of(form));
      const auto append = Row(t, options_of(kv, window)).feed_all(count);
      for (int chunk : {64, 113, 300}) {
        EXPECT_TRUE(test::same_bits(Row(t, ring).feed_all(chunk), append))
            << "chunks of " << chunk << ", window " << window;
      }
    }
  }
}

// Rows of other lengths in one call.
TEST_P(PackedAttend, ARowDoesNotSeeItsCompany) {
  const int lengths[] = {3, 600, 1, 129, 40}, counts[] = {1, 1, 20, 70, 1};
  for (const KvFormat& form : some_forms()) {
    const KvShape kv{form, 2, 64};
    const AttendOptions o = options_of(kv);
    std::vector<Tokens> tokens;
    for (int i = 0; i < 5; i++) {
      tokens.emplace_back(lengths[i] + counts[i], 6, kv, 10 * i);
    }
    std::vector<Row> rows;
    std::vector<AttendRow> call;
    std::vector<mx::array> q, k, v;
    int begin = 0;
    for (int i = 0; i < 5; i++) {
      const Tokens& t = tokens[i];
      rows.emplace_back(t, o).feed(lengths[i]);
      call.push_back(rows[i].next(begin, counts[i]));
      begin += counts[i];
      q.push_back(part(t.q, t.q_width(), lengths[i], t.count));
      k.push_back(part(t.k, t.kv_width(), lengths[i], t.count));
      v.push_back(part(t.v, t.kv_width(), lengths[i], t.count));
    }
    set_threads(3);
    const auto out =
        to_floats(attend(mx::concatenate(q, 0), mx::concatenate(k, 0),
                         mx::concatenate(v, 0), call, o)
                      .out);
    for (int i = 0; i < 5; i++) {
      Row alone(tokens[i], o);
      alone.feed(lengths[i]);
      const auto y = alone.feed(counts[i]);
      EXPECT_TRUE(
          test::same_bits(&out[call[i].begin * 6 * 64], y.data(), y.size()))
          << name_of(form) << ", row " << i;
    }
  }
}

// A value that is not a number is one for the tokens that see it, in a block
// that the others share.
TEST_P(PackedAttend, NanIsSeenOnlyByLaterTokens) {
  for (const KvFormat& form : some_forms()) {
    for (bool key : {false, true}) {
      const KvShape kv{form, 1, 64};
      Tokens t(40, 2, kv, 3);
      (key ? t.k : t.v)[20 * 64 + 5] = std::nanf("");
      for (const AttendOptions& o : {options_of(kv), exactly(options_of(kv))}) {
        const auto y = Row(t, o).feed(40);
        const auto one_by_one = Row(t, o).feed_all(1);
        for (int token : {0, 19, 20, 39}) {
          SCOPED_TRACE(name_of(form) + fmt::format(", token {}", token));
          EXPECT_EQ(std::isnan(y[token * 128 + 5]), token >= 20);
          EXPECT_EQ(std::isnan(one_by_one[token * 128 + 5]), token >= 20);
        }
      }
    }
  }
}

#ifndef __SANITIZE_ADDRESS__  // its frames are several times as large
// Attention of one query or many, in codes or decoded, on a stack of 64 KiB.
TEST_P(PackedAttend, FitsSmallStacks) {
  constexpr int D = 512, most = 64;
  struct Call {
    KvFormat form;
    int queries;
    bool exact;
  };
  static const auto attend_block = [](const Call& call) {
    const KvBlock form = block_of(call.form, D);
    std::vector<uint8_t> block(form.bytes);
    std::vector<float> q(call.queries * D, 1.f), out(q.size());
    std::vector<float> max(most, -INFINITY), sum(most), scale(most * D / 32),
        sums(most * D / 32), scratch(2 * 64 * D + 16);
    std::vector<int8_t> int8(q.size());
    std::vector<int32_t> totals(most * D / 32);
    const PackedQueries packed{int8.data(), scale.data(), sums.data(),
                               totals.data()};
    if (!call.exact) {
      kernels().quantize_queries(q.data(), int(q.size()), packed);
    }
    const std::vector<int> first(most, 0), last(most, 64);
    kernels().attend_packed({.form = form,
                             .blocks = block.data(),
                             .queries = call.queries,
                             .q = q.data(),
                             .int8 = call.exact ? PackedQueries{} : packed,
                             .first = first.data(),
                             .last = last.data(),
                             .begin = 0,
                             .end = 64,
                             .max = max.data(),
                             .sum = sum.data(),
                             .out = out.data(),
                             .scratch = scratch.data()});
  };
  pthread_attr_t small;
  ASSERT_EQ(pthread_attr_init(&small), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&small, 64 << 10), 0);
  for (const KvFormat& form : some_forms()) {
    for (int queries : {1, most}) {
      for (bool exact : {false, true}) {
        Call call{form, queries, exact};
        pthread_t thread;
        const auto run = [](void* p) -> void* {
          attend_block(*static_cast<Call*>(p));
          return nullptr;
        };
        ASSERT_EQ(pthread_create(&thread, &small, run, &call), 0);
        ASSERT_EQ(pthread_join(thread, nullptr), 0);
      }
    }
  }
  pthread_attr_destroy(&small);
}
#endif

TEST(PackedAttendErrors, HeadsThatTheCodecLacks) {
  const auto refused = [](const KvFormat& form, int head_dim) {
    return test::error_of([&] { KvShape{form, 1, head_dim}.planes(64); });
  };
  EXPECT_NE(refused(turbo_form(8, 3), 96), "");
  EXPECT_NE(refused(affine_form(4, 64), 96), "");
  EXPECT_NE(refused(affine_form(4, 32), 1024), "");
}

}  // namespace
}  // namespace quern
