// One layer Y = A ⊗ I + X in closed form, and the scalar route from one layer to many.
//
// One layer (s_i the singular values of A): G(z) = (1/n) Σ_i [z(1 − σ²G) − s_i²/(1 − σ²G)]⁻¹.
// Scalar skip A = a I:                      σ⁴zG³ − 2σ²zG² + (z − a² + σ²)G − 1 = 0.
//
// Scalar route: when every A_l is the same multiple of an orthogonal matrix, the Y_lᵀY_l are free
// of each other, their S-transforms multiply, and depth L is a change of variable of depth 1:
//   z_L = z₁^L (ψ/(1 + ψ))^{L−1},   ψ = z₁G₁(z₁) − 1 = z_L G_L(z_L) − 1.
// For any other mixer it is wrong, already in E s² (see single_layer_test.cpp); it is offered for
// every A so that the error can be drawn.
#pragma once

#include "geores/spectral/fixed_point.h"
#include "geores/spectral/resolvent.h"

namespace geores::spectral {

// The root of the cubic that is a Cauchy transform (Im √z G < 0), Im z > 0, a and sigma2 >= 0.
Complex cubic_cauchy_transform(Complex z, double a, double sigma2);

// The cubic's left-hand side at G.
Complex cubic(Complex z, Complex g, double a, double sigma2);

ResolventFactory single_layer_resolvent(const Eigen::MatrixXd& mixer, double sigma2,
                                        const Convergence& convergence = {});

// `depth` layers of branch variance sigma2 each.
ResolventFactory scalar_route_resolvent(const Eigen::MatrixXd& mixer, double sigma2, int depth);

}  // namespace geores::spectral
