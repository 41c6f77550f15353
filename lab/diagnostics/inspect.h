// Measures a model's residual operators, states and Jacobians on data.
//   const auto inspection = inspect(*run.model, run.dataset.validation_x.slice(0, 0, 8));
//   fmt::print("{}", inspection.to_table());
//
// R_l is the linear map that carries the state past sublayer l (the probe "operator"), so a block
// does x → R x + branch. Measured are
//   each R      γ, β, angle; ‖RᵀR − I‖₂, σ_min, σ_max; max |RᵀR − I| if the connection promises an
//               orthogonal R
//   R_2L … R_1  spectral norm, σ₂, σ_min, row and column sums: of each token's product, and of the
//               product of the mean operators
//   states      RMS, effective rank, cosine between streams, after every block
//   Jacobians   ∂ output state / ∂ input state at one position of the first sequence, by autograd:
//               of the residual path (every sublayer returns 0; R still depends on the state, and
//               DDL, whose direction k is the sublayer's output, becomes the identity) and of the
//               whole stack
// The model runs in its own dtype, the linear algebra in double. Operators on the width (D × D) are
// costly: with growing D fewer sequences are used, as the result says.
#pragma once

#include "geores/model/model.h"
#include "lab/diagnostics/inspection.h"

namespace geores {

struct InspectOptions {
  int64_t positions = 16;        // per sequence, evenly spread, at which operators are taken apart
  int64_t jacobian_length = 16;  // Jacobians are taken at the last of the first so many positions
};

// x: (B, T, width) or ids (B, T), moved to the model's device and dtype. Refuses a model without
// residual connections (Model::residual_stack), and one whose states are not finite, naming the
// operator after which they are not.
Inspection inspect(Model& model, const Tensor& x, const InspectOptions& options = {});

}  // namespace geores
