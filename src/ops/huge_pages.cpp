#include "ops/huge_pages.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>

#include "base/error.h"

namespace quern {
namespace {

constexpr size_t kPage = 2 << 20;
constexpr size_t kBlock = 64 << 20;
constexpr size_t kLine = 64;

constexpr size_t round_up(size_t value, size_t step) {
  return (value + step - 1) / step * step;
}

struct Block {
  explicit Block(size_t bytes)
      : size(bytes),
        memory(static_cast<std::byte*>(std::aligned_alloc(kPage, bytes))) {
    if (!memory) fail("out of memory: {} bytes were asked for", bytes);
    prefer_huge_pages(memory, size);
  }
  ~Block() { std::free(memory); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  size_t size, used = 0;
  std::byte* memory;
};

}  // namespace

void prefer_huge_pages(void* p, size_t bytes) {
#if defined(MADV_HUGEPAGE)
  const auto at = reinterpret_cast<uintptr_t>(p);
  const uintptr_t begin = round_up(at, kPage),
                  end = (at + bytes) / kPage * kPage;
  // Advice: without it the pages are small.
  if (begin < end) {
    ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
  }
#endif
}

mx::allocator::Data weight_memory(size_t bytes) {
  static std::mutex mutex;
  static std::weak_ptr<Block> latest;
  // MLX's CPU allocator keeps a buffer's size in front of what it holds, and
  // takes the address of that for the buffer's.
  const size_t piece = kLine + round_up(bytes, kLine);
  std::lock_guard lock(mutex);
  std::shared_ptr<Block> block = latest.lock();
  if (!block || block->size - block->used < piece) {
    block = std::make_shared<Block>(round_up(std::max(piece, kBlock), kPage));
    latest = block;
  }
  std::byte* size_at = block->memory + block->used + kLine - sizeof(size_t);
  *reinterpret_cast<size_t*>(size_at) = bytes;
  block->used += piece;
  return {mx::allocator::Buffer(size_at),
          [block](mx::allocator::Buffer) mutable { block.reset(); }};
}

}  // namespace quern
