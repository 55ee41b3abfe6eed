// Passes over a whole row, as distances: how far each logit lies below the
// largest one, peak - logit, in [0, inf]. Weights are exp(-distance / T).
//
// A weight is rounded to a multiple of 2^-34, so a sum of up to 2^19 of them is
// exact in a double whatever its order: neither the vector width of a build nor
// the way tokens are selected can change a draw. A token less likely than
// 2^-35 of the peak has weight 0.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace quern {

inline constexpr size_t kBlock = 128;

// Turns logits into distances, in place. False, with the row unchanged, if one
// is NaN or +inf or all are -inf. Otherwise `nearest` holds the smallest
// distance of each block of kBlock tokens.
bool to_distances(std::span<float> logits, std::vector<float>& nearest);

// The lowest id of the largest logit, or -1 for a row that to_distances
// refuses. Leaves the row as it is.
int32_t arg_max(std::span<const float> logits);

// The weight of each token at 1/T = `inverse_temperature`. `out` has the size
// of `distances`.
void weigh(std::span<const float> distances, float inverse_temperature,
           std::span<double> out);

// The sum of the weights.
double mass(std::span<const float> distances, float inverse_temperature);

// The index of the token at share u in [0, 1) of the mass, laid out in index
// order. Some distance must be 0. `scratch` holds the mass of each block.
size_t draw(std::span<const float> distances, float inverse_temperature,
            double u, std::vector<double>& scratch);

}  // namespace quern
