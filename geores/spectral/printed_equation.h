// The equation of JPmHC (arXiv:2602.18308, Eqs. (4), (7), App. F) as printed, kept to be drawn
// next to the correct one. It puts the self-energy off the diagonal, on the coupling of x_{l−1} and
// y_l:
//   −A_l  becomes  −C_l = −(A_l + σ_l² t_l I),   t_l = tr_n R[y_l, x_{l−1}],
// and nothing on the diagonal, so that the chain is a product of fixed complex matrices:
//   a(w) = tr_n w (w² − KᵀK)⁻¹,   K = C_L … C_1,   R[y_l, x_{l−1}] = P_lᵀ K (w² − KᵀK)⁻¹ Q_lᵀ,
//   P_l = C_L … C_{l+1},  Q_l = C_{l−1} … C_1.
// Its errors: E s² is a² instead of a² + σ² for A = a I; it changes under A → QA with Q
// orthogonal, though Y → QY does not change a singular value; a(w) need not stay in the lower
// half-plane, so that "densities" are negative or lose their mass. For the right equation see
// chain_equation.h.
#pragma once

#include "geores/spectral/fixed_point.h"
#include "geores/spectral/layer.h"
#include "geores/spectral/resolvent.h"

namespace geores::spectral {

// Follows the solution that is a Cauchy transform far from the axis. Throws geores::Error where the
// printed equation has no fixed point that the damped iteration can reach. Plain branches only.
ResolventFactory printed_resolvent(const Chain& chain);

}  // namespace geores::spectral
