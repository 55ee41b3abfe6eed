#include "ops/qmm/run.h"

#include <algorithm>
#include <span>

#include "ops/kernels.h"
#include "ops/thread_pool.h"

namespace quern {
namespace {

constexpr int kTilesAtLeast = 4;  // tiles worth a claim of a thread

// Int8Rows over memory of the calling thread, kept for its next matmul.
Int8Rows int8_scratch(int rows, int k) {
  const int block = rows == 1 ? 1 : kBlockRows;
  rows = qmm::round_up(rows, block);
  const size_t units = size_t(rows) * (k / 32);
  thread_local std::vector<int8_t> q;
  thread_local std::vector<float> scale, sum;
  thread_local std::vector<int32_t> half_sums;
  q.resize(size_t(rows) * k);
  scale.resize(units);
  sum.resize(units);
  half_sums.resize(units * 2);
  return {k, q.data(), scale.data(), sum.data(), half_sums.data(), block};
}

// x as the kernels of one call take it.
struct Prepared {
  const float* f32;
  Int8Rows int8;
};

// One call: x [rows, k] through all weights of a projection.
class Run {
 public:
  Run(const Projection& projection, Precision precision, const float* x,
      int rows, const float* residual)
      : weights_(projection.weights()),
        o_(projection.options()),
        precision_(precision),
        rows_(rows),
        k_(projection.k()),
        in_(prepare(x)),
        residual_(residual) {}

  void operator()(std::span<float* const> out) const {
    if (o_.gate) {
      parallel_for(tiles_of(0), kTilesAtLeast, [&](int begin, int end) {
        gated_tiles(begin, end, out[0]);
      });
    } else {
      int tiles = 0;
      for (size_t i = 0; i < weights_.size(); i++) tiles += tiles_of(i);
      parallel_for(tiles, kTilesAtLeast, [&](int begin, int end) {
        for (size_t i = 0; i < weights_.size(); i++) {
          const int from = std::max(begin, 0), to = std::min(end, tiles_of(i));
          if (from < to) whole_tiles(i, from, to, out[i]);
          begin -= tiles_of(i);
          end -= tiles_of(i);
        }
      });
    }
    if (o_.out_norm) norm_result(out[0]);
  }

 private:
  int tiles_of(size_t weight) const {
    return qmm::round_up(weights_[weight].n, qmm::kTileRows) / qmm::kTileRows;
  }
  bool in_int8(const Weight& w) const {
    return precision_ == Precision::fast && !w.format.dense();
  }

  // Normalises x, and brings it into int8 where a weight's kernel wants that.
  Prepared prepare(const float* x) const {
    const bool int8 = std::ranges::any_of(
        weights_, [&](const Weight& w) { return in_int8(w); });
    const bool f32 = std::ranges::any_of(
        weights_, [&](const Weight& w) { return !in_int8(w); });
    if (!o_.norm && !int8) return {x, {}};
    thread_local std::vector<float> memory;
    float* normed = nullptr;
    if (o_.norm && f32) {
      memory.resize(size_t(rows_) * k_);
      normed = memory.data();
    }
    const Prepared to{normed ? normed : x,
                      int8 ? int8_scratch(rows_ * terms(), k_) : Int8Rows{}};
    parallel_for(rows_, std::max(1, 32768 / k_), [&](int begin, int end) {
      thread_local std::vector<float> row_memory;
      if ((o_.norm && !normed) || o_.fine) row_memory.resize(k_);
      for (int m = begin; m < end; m++) {
        const float* row = x + int64_t(m) * k_;
        if (o_.norm) {
          float* y = normed ? normed + int64_t(m) * k_ : row_memory.data();
          apply(*o_.norm, row, k_, y);
          row = y;
        }
        if (int8) quantize(row, m, to.int8, row_memory.data());
      }
    });
    return to;
  }

  // Rows of int8 that row m of x becomes: [m * terms(), (m + 1) * terms()).
  int terms() const { return o_.fine ? 2 : 1; }

  // `rest` [K] is memory, which may be the row's own.
  void quantize(const float* row, int m, const Int8Rows& to,
                float* rest) const {
    const int at = m * terms();
    kernels().quantize_rows(row, 0, at, at + 1, to);
    if (!o_.fine) return;
    for (int u = 0; u < k_ / 32; u++) {
      const int8_t* q = to.q_at(at, u);
      const float scale = to.scale[to.at(at, u)];
      for (int i = 0; i < 32; i++) {
        rest[u * 32 + i] = row[u * 32 + i] - scale * q[i];
      }
    }
    kernels().quantize_rows(rest, 0, at + 1, at + 2, to);
  }

  static void apply(const RmsNorm& norm, const float* x, int size, float* y) {
    kernels().rms_norm(x, norm.weight.data<float>(), norm.offset, norm.eps,
                       size, y);
  }

  // A few columns of a few rows, while what is made of them is in the cache.
  struct Block {
    int from, to;       // tiles
    int column, width;  // of all columns
    int m, m_end;       // rows

    // Where a kernel writes the block to `p`, which holds `terms` rows for each
    // of its own.
    MatmulOut at(float* p, int terms) const {
      return {.y = p - (int64_t(m) * terms * width + column),
              .stride = width,
              .bias = nullptr,
              .residual = nullptr,
              .residual_stride = 0};
    }
  };
  static constexpr int kBlockNumbers = 4096;

  // Calls use(block) for tiles [from, to) of N columns and rows
  // [m_begin, m_end): at most `most_rows` rows and kBlockNumbers / terms
  // numbers a block.
  template <class Use>
  static void in_blocks(int n, int from, int to, int m_begin, int m_end,
                        int most_rows, int terms, Use use) {
    const int rows = std::min(m_end - m_begin, most_rows);
    if (rows == 0) return;
    const int step =
        std::max(1, kBlockNumbers / (terms * rows * qmm::kTileRows));
    for (int t = from; t < to; t += step) {
      const int t_end = std::min(t + step, to), column = t * qmm::kTileRows;
      const int width = std::min(t_end * qmm::kTileRows, n) - column;
      for (int m = m_begin; m < m_end; m += rows) {
        use(Block{t, t_end, column, width, m, std::min(m + rows, m_end)});
      }
    }
  }

  // Tiles [from, to) of a weight for rows [m_begin, m_end), each in its terms.
  void fine_tiles(size_t weight, int from, int to, int m_begin, int m_end,
                  const MatmulOut& out) const {
    thread_local std::vector<float> memory(kBlockNumbers);
    const Weight& w = weights_[weight];
    const Tiles tiles{w.format, w.tiles.data<uint8_t>(), w.n, w.k};
    in_blocks(w.n, from, to, m_begin, m_end, 64, 2, [&](const Block& b) {
      kernels().matmul_int8(tiles, b.from, b.to, in_.int8, 2 * b.m, 2 * b.m_end,
                            b.at(memory.data(), 2));
      const float* terms = memory.data();
      for (int row = b.m; row < b.m_end; row++, terms += 2 * b.width) {
        float* y = out.y + row * out.stride + b.column;
        for (int i = 0; i < b.width; i++) {
          y[i] = terms[i] + terms[b.width + i];
          if (out.bias) y[i] += out.bias[b.column + i];
          if (out.residual) {
            y[i] += out.residual[row * out.residual_stride + b.column + i];
          }
        }
      }
    });
  }

  // Tiles [from, to) of a weight for rows [m_begin, m_end).
  void multiply(size_t weight, int from, int to, int m_begin, int m_end,
                MatmulOut out) const {
    const Weight& w = weights_[weight];
    const Tiles tiles{w.format, w.tiles.data<uint8_t>(), w.n, w.k};
    if (!o_.biases.empty() && o_.biases[weight]) {
      out.bias = o_.biases[weight]->data<float>();
    }
    if (in_int8(w) && o_.fine) {
      fine_tiles(weight, from, to, m_begin, m_end, out);
    } else if (in_int8(w)) {
      kernels().matmul_int8(tiles, from, to, in_.int8, m_begin, m_end, out);
    } else {
      kernels().matmul_f32(tiles, from, to, in_.f32, k_, m_begin, m_end, out);
    }
  }

  void whole_tiles(size_t weight, int from, int to, float* y) const {
    const int n = weights_[weight].n;
    multiply(weight, from, to, 0, rows_,
             {.y = y,
              .stride = n,
              .bias = nullptr,
              .residual = o_.out_norm ? nullptr : residual_,
              .residual_stride = n});
  }

  void gated_tiles(int begin, int end, float* y) const {
    thread_local std::vector<float> memory(2 * kBlockNumbers);
    const auto act =
        *o_.gate == Gate::silu ? kernels().silu_mul : kernels().gelu_tanh_mul;
    const int n = weights_[0].n;
    in_blocks(n, begin, end, 0, rows_, 128, 1, [&](const Block& b) {
      float* parts[2] = {memory.data(), memory.data() + kBlockNumbers};
      for (size_t i = 0; i < 2; i++) {
        multiply(i, b.from, b.to, b.m, b.m_end, b.at(parts[i], 1));
      }
      for (int row = b.m; row < b.m_end; row++) {
        const int64_t at = int64_t(row - b.m) * b.width;
        act(parts[0] + at, parts[1] + at, b.width,
            y + int64_t(row) * n + b.column);
      }
    });
  }

  void norm_result(float* y) const {
    const int n = weights_[0].n;
    parallel_for(rows_, std::max(1, 16384 / n), [&](int begin, int end) {
      for (int64_t at = int64_t(begin) * n; at < int64_t(end) * n; at += n) {
        apply(*o_.out_norm, y + at, n, y + at);
        if (!residual_) continue;
        for (int i = 0; i < n; i++) y[at + i] += residual_[at + i];
      }
    });
  }

  std::span<const Weight> weights_;
  const ProjectionOptions& o_;
  Precision precision_;
  int rows_, k_;
  Prepared in_;
  const float* residual_;
};

}  // namespace

void run_projection(const Projection& projection, Precision precision,
                    const float* x, int rows, const float* residual,
                    std::span<float* const> out) {
  Run(projection, precision, x, rows, residual)(out);
}

}  // namespace quern
