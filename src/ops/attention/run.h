// Attention on plain memory, for the nodes that it is a part of.
#pragma once

#include <optional>
#include <vector>

#include "ops/attention/attention.h"

namespace quern {

// The rows of one call with the memory that their keys and values are in after
// it: what they had, or larger planes that take its place.
struct AttendPlan {
  struct Part {
    int begin, count, start, capacity;
    mx::array planes;
    std::optional<mx::array> before;  // to be copied into the larger planes
  };

  // Rows and options have been checked. Allocates planes; throws Error where
  // there is no memory. Adds what the planes wait for to the node's inputs.
  AttendPlan(std::vector<AttendRow> rows, const AttendOptions& options,
             std::vector<mx::array>& inputs);
  std::vector<mx::array> planes() const;

  AttendOptions options;
  std::vector<Part> parts;
};

// Throws Error if rows or options do not fit `tokens` tokens, or a rope table
// [T, 2, R] does not fit them.
void check_attend(const std::vector<AttendRow>& rows, const AttendOptions& o,
                  int tokens, const std::optional<mx::array>& rope_table);

// q [T, heads * D], k and v [T, kv_heads * D], the rope's table
// [T, 2, rotary / 2] or null -> out [T, heads * D].
void run_attend(const AttendPlan& plan, int heads, const float* q,
                const float* k, const float* v, const float* table, int rotary,
                float* out);

}  // namespace quern
