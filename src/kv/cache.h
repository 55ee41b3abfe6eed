// The keys and values of one attention layer for one row of a batch.
#pragma once

#include <span>

#include "kv/form.h"
#include "kv/layout.h"
#include "kv/state.h"
#include "ops/attention/attention.h"
#include "quant/kv_codec.h"

namespace quern {

class Cache final : public LayerState {
 public:
  Cache(KvShape shape, Layout layout);
  // A row of `tokens`, of which `planes` [1, kv_heads, T, last] hold the last,
  // in the interchange form: all, or in a ring at least those that the next
  // one sees. `layout` is an empty one. Throws Error for others.
  Cache(KvShape shape, Layout layout, const Planes& planes, int tokens);

  int offset() const override { return layout_.length(); }
  int trimmable() const override { return layout_.trimmable(); }
  void trim(int tokens) override;
  size_t bytes() const override { return planes_.nbytes(); }
  size_t bytes_at(int tokens) const override;
  int room() const override { return layout_.room(); }
  void reserve(int tokens) override;
  std::string signature() const override;
  std::unique_ptr<LayerState> copy() const override;

  std::vector<mx::array> arrays() const override;

  const KvShape& shape() const { return shape_; }
  const Layout& layout() const { return layout_; }
  // Once arrays() are evaluated.
  const mx::array& planes() const { return planes_; }
  // The last `tokens` tokens, oldest first, in the interchange form: of a ring
  // at most layout().kept(). Waits for what is under way.
  Planes last(int tokens) const;

  // The part in an attend of a row's next tokens.
  AttendRow next(int begin, int count) const;
  // Takes the planes that an attend gave, which hold `tokens` more once `done`
  // is evaluated.
  void appended(int tokens, mx::array planes, mx::array done);
  // Whether rows of both may share a kernel call.
  bool same_kind(const Cache& other) const;

  // Fills the cache up to `tokens` with small made-up numbers, as a bench of
  // long contexts needs them.
  void fill(int tokens);

 private:
  mx::array made_up_numbers() const;
  mx::array made_up_codes() const;
  // A true copy of the planes with room for `capacity` tokens.
  mx::array planes_of(int capacity) const;

  KvShape shape_;
  Layout layout_;
  mx::array planes_;               // ops/attention/attention.h
  std::optional<mx::array> done_;  // of the attend that wrote them last
};

// One row of a batch: its cache of the layer, and which tokens are its own.
struct CacheRow {
  Cache* cache;
  int begin, count;
};

// The rows as an op takes them, which all must be of one kind; fills in what
// the caches know of `options`.
std::vector<AttendRow> attend_rows(std::span<const CacheRow> rows,
                                   AttendOptions& options);
// Takes what that op gave.
void appended(std::span<const CacheRow> rows, std::vector<mx::array> planes,
              const mx::array& done);

// Appends each row's k and v to its cache and attends: q [T, H * D], k and v
// [T, kv_heads * D] -> f32 [T, H * D]. `options` are the model's.
mx::array attend(const mx::array& q, const mx::array& k, const mx::array& v,
                 std::span<const CacheRow> rows, AttendOptions options,
                 const std::optional<mx::array>& rope_table = {});

}  // namespace quern
