#include "kv/merged_rows.h"

#include <algorithm>

#include "kv/interchange.h"

namespace quern {
namespace {

// Only Cache keeps the past of a layer so far.
const Cache& cache_of(const LayerState& state) {
  return static_cast<const Cache&>(state);
}

MergedCache merged(const Cache& cache) {
  const int window = cache.layout().window();
  const int kept = cache.layout().kept();
  return MergedCache::row(
      form_of(cache.shape()), window,
      cache.last(window > 0 ? std::min(window, kept) : kept), cache.offset());
}

std::unique_ptr<Cache> unmerged(const MergedCache& row) {
  const KvForm& form = row.form();
  const KvShape shape{form.codec, form.kv_heads, form.head_dim};
  return std::make_unique<Cache>(
      shape, row.window() > 0 ? Layout::ring(row.window()) : Layout::append(),
      row.planes(), row.offsets()[0]);
}

// Numbers of f32 beside the stored bytes, for each number of keys and values of
// a layer that is attended to: keys and values decoded, and what is on the way
// to them.
constexpr size_t kDecoded = 2;
// Copies of the stored bytes while a layer is rearranged.
constexpr size_t kCopies = 3;

}  // namespace

int MergedRows::size() const {
  return layers_.empty() ? 0 : layers_[0].batch_size();
}

int MergedRows::length(int row) const { return layers_[0].offsets()[row]; }

size_t MergedRows::bytes() const {
  size_t sum = 0;
  for (const MergedCache& layer : layers_) sum += layer.bytes();
  return sum;
}

size_t MergedRows::bytes_at(const Row& empty, int tokens) {
  size_t sum = 0, most = 0;
  for (int i = 0; i < empty.layers(); i++) {
    const Cache& cache = cache_of(empty.layer(i));
    const KvShape& shape = cache.shape();
    const size_t alone = cache.bytes_at(tokens);
    if (alone == SIZE_MAX) return SIZE_MAX;
    const size_t columns =
        size_t(MergedCache::columns(cache.layout().window(), tokens)) *
        size_t(shape.kv_heads);
    const size_t stored =
        columns * KvCodec{shape.format}.bytes_per_token(shape.head_dim);
    const size_t decoded =
        columns * 2 * size_t(shape.head_dim) * kDecoded * sizeof(float);
    sum += std::max(alone, stored);
    most = std::max({most, alone, kCopies * stored, decoded});
  }
  return sum + most;
}

void MergedRows::arrange(std::span<const int> keep, std::vector<Row> joining) {
  const int layers = joining.empty() ? this->layers() : joining[0].layers();
  for (int i = 0; i < layers; i++) {
    std::vector<MergedCache> alone;
    for (Row& row : joining) alone.push_back(merged(cache_of(*row.release(i))));
    std::vector<MergedCache::RowOf> rows;
    for (int row : keep) rows.push_back({&layers_[i], row});
    for (const MergedCache& row : alone) rows.push_back({&row, 0});
    MergedCache all = MergedCache::gather(rows);
    if (i < this->layers()) {
      layers_[i] = std::move(all);
    } else {
      layers_.push_back(std::move(all));
    }
  }
}

void MergedRows::make_room() {
  for (MergedCache& layer : layers_) layer.make_room();
}

Row MergedRows::extract(int row) const {
  std::vector<std::unique_ptr<LayerState>> layers;
  for (const MergedCache& layer : layers_) {
    layers.push_back(unmerged(layer.extract(row)));
  }
  return Row(std::move(layers));
}

}  // namespace quern
