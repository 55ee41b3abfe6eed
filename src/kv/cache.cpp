#include "kv/cache.h"

#include <fmt/format.h>
#include <mlx/mlx.h>

#include <algorithm>

#include "kv/interchange.h"

namespace quern {

Cache::Cache(KvShape shape, Layout layout)
    : shape_(shape),
      layout_(layout),
      planes_(allocate(0), {0, 0}, shape.dtype()) {}

Cache::Cache(KvShape shape, Layout layout, const Planes& planes, int tokens)
    : Cache(shape, layout) {
  form_of(shape).require(planes);
  const mx::Shape held = storage::shape(planes);
  if (held[0] != 1) fail("[kv.cache] expected one row, got {}", held[0]);
  layout_.restore(tokens, held[2]);
  planes_ = from_interchange(shape, planes, layout_);
}

Planes Cache::last(int tokens) const {
  if (tokens < 0 || tokens > layout_.kept()) {
    fail("[kv.last] {} tokens, {} are there", tokens, layout_.kept());
  }
  mx::eval(arrays());
  return to_interchange(shape_, planes_, layout_,
                        {offset() - tokens, offset()});
}

std::string Cache::signature() const {
  return fmt::format(
      "{}/{}/{}x{}",
      layout_.is_ring() ? fmt::format("ring-{}", layout_.window()) : "append",
      KvCodec{shape_.format}.signature(), shape_.kv_heads, shape_.head_dim);
}

std::unique_ptr<LayerState> Cache::copy() const {
  auto twin = std::make_unique<Cache>(shape_, layout_);
  if (planes_.size() > 0) twin->planes_ = planes_of(layout_.capacity());
  return twin;
}

std::vector<mx::array> Cache::arrays() const {
  return done_ ? std::vector{*done_} : std::vector<mx::array>{};
}

bool Cache::same_kind(const Cache& other) const {
  return shape_ == other.shape_ && layout_.window() == other.layout_.window();
}

size_t Cache::bytes_at(int tokens) const {
  const int capacity = layout_.capacity_for(tokens);
  return shape_.holds(capacity) ? shape_.bytes(capacity) : SIZE_MAX;
}

void Cache::reserve(int tokens) {
  if (layout_.capacity_for(tokens) <= layout_.capacity()) return;
  planes_ = planes_of(layout_.capacity_for(tokens));
  layout_.reserve(tokens);
}

mx::array Cache::planes_of(int capacity) const {
  mx::eval(arrays());
  mx::array from = planes_;
  const mx::Shape shape = shape_.planes(capacity);
  const size_t bytes = shape_.bytes(capacity) / shape[0];
  const size_t held = from.nbytes() / shape[0];
  mx::array to(allocate(bytes * shape[0]), shape, shape_.dtype());
  for (int i = 0; i < shape[0]; i++) {
    uint8_t* plane = to.data<uint8_t>() + i * bytes;
    std::copy_n(from.data<uint8_t>() + i * held, held, plane);
    std::fill(plane + held, plane + bytes, uint8_t(0));
  }
  return to;
}

void Cache::trim(int tokens) {
  if (tokens < 0 || tokens > trimmable()) {
    fail("[kv.trim] {} tokens of {}, at most {} can go", tokens, offset(),
         trimmable());
  }
  layout_.trim(tokens);
}

AttendRow Cache::next(int begin, int count) const {
  return {begin, count, offset(), layout_.capacity_with(count), planes_, done_};
}

void Cache::appended(int tokens, mx::array planes, mx::array done) {
  layout_.add(tokens);
  planes_ = std::move(planes);
  done_ = std::move(done);
}

void Cache::fill(int tokens) {
  const int more = tokens - layout_.length();
  if (more <= 0) return;
  layout_.add(more);
  planes_ = shape_.format.raw() ? made_up_numbers() : made_up_codes();
  mx::eval(planes_);
  done_.reset();
}

mx::array Cache::made_up_numbers() const {
  const mx::array noise = mx::multiply(
      mx::random::normal(shape_.planes(layout_.capacity()), mx::float32, 0, 1,
                         mx::random::key(uint64_t(layout_.length()))),
      mx::array(0.1f));
  return mx::astype(noise, shape_.dtype());
}

// A few blocks of tokens, again and again.
mx::array Cache::made_up_codes() const {
  constexpr int kDifferent = 16;
  const int D = shape_.head_dim;
  const mx::Shape shape = shape_.planes(layout_.capacity());
  const int made = std::min(int(shape[1]), kDifferent);
  mx::array noise = mx::multiply(
      mx::random::normal({shape_.kv_heads, made * kKvBlock, 2, D}, mx::float32,
                         0, 1, mx::random::key(uint64_t(layout_.length()))),
      mx::array(0.1f));
  mx::eval(noise);
  mx::array planes(allocate(shape_.bytes(layout_.capacity())), shape,
                   shape_.dtype());
  const float* k = noise.data<float>();
  const size_t block = size_t(shape[2]);
  for (int h = 0; h < shape_.kv_heads; h++) {
    uint8_t* blocks = planes.data<uint8_t>() + size_t(h) * shape[1] * block;
    std::fill_n(blocks, made * block, uint8_t(0));
    for (int i = 0; i < made * kKvBlock; i++, k += 2 * D) {
      put_kv(shape_, k, k + D, h, i, planes);
    }
    for (int i = made; i < shape[1]; i++) {
      std::copy_n(blocks + i % made * block, block, blocks + i * block);
    }
  }
  return planes;
}

std::vector<AttendRow> attend_rows(std::span<const CacheRow> rows,
                                   AttendOptions& options) {
  if (rows.empty()) fail("[kv.attend] needs a row");
  const Cache& first = *rows[0].cache;
  options.kv = first.shape();
  options.window = first.layout().window();
  options.ring = first.layout().is_ring();
  std::vector<AttendRow> parts;
  parts.reserve(rows.size());
  for (const CacheRow& row : rows) {
    if (!row.cache->same_kind(first)) {
      fail("[kv.attend] rows must share a signature: got {} and {}",
           first.signature(), row.cache->signature());
    }
    parts.push_back(row.cache->next(row.begin, row.count));
  }
  return parts;
}

void appended(std::span<const CacheRow> rows, std::vector<mx::array> planes,
              const mx::array& done) {
  for (size_t i = 0; i < rows.size(); i++) {
    rows[i].cache->appended(rows[i].count, std::move(planes[i]), done);
  }
}

mx::array attend(const mx::array& q, const mx::array& k, const mx::array& v,
                 std::span<const CacheRow> rows, AttendOptions options,
                 const std::optional<mx::array>& rope_table) {
  auto parts = attend_rows(rows, options);
  Attended a = attend(q, k, v, std::move(parts), options, rope_table);
  appended(rows, std::move(a.planes), a.done);
  return std::move(a.out);
}

}  // namespace quern
