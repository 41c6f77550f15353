#include "geores/spectral/single_layer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "geores/spectral/chain_equation.h"
#include "geores/spectral/density.h"
#include "geores/spectral/mixer.h"
#include "geores/testing/testing.h"

namespace geores::spectral {
namespace {

TEST(Cubic, RootSolvesItAndIsTheSingleLayerResolvent) {
  for (const double a : {0.0, 0.4, 1.0, 2.0}) {
    for (const double sigma2 : {1e-4, 0.05, 1.0, 4.0}) {
      const Eigen::MatrixXd skip = a * Eigen::MatrixXd::Identity(2, 2);
      const auto resolvent = single_layer_resolvent(skip, sigma2)();
      for (double s = 4; s > 0.01; s -= 0.13) {
        for (const double eta : {1e-2, 1.0}) {
          const Complex w(s, eta);
          const Complex g = cubic_cauchy_transform(w * w, a, sigma2);
          EXPECT_LT(std::abs(cubic(w * w, g, a, sigma2)), 1e-10);
          EXPECT_LT(std::abs(w * g - resolvent(w)), 1e-8) << a << ' ' << sigma2 << ' ' << s;
        }
      }
      const Complex near_axis(1.1, 1e-9);
      const Complex g = cubic_cauchy_transform(near_axis, a, sigma2);
      EXPECT_LT(std::abs(cubic(near_axis, g, a, sigma2)), 1e-10);
    }
  }
}

TEST(Cubic, WithoutSkipIsTheMarchenkoPasturLawOfASquareMatrix) {
  // Density of the singular values of a Gaussian matrix: quarter circle of radius 2σ.
  for (const double s : {0.2, 1.0, 1.7}) {
    const Complex w(s, 1e-9);
    const double rho = -2 / M_PI * (w * cubic_cauchy_transform(w * w, 0, 1)).imag();
    EXPECT_NEAR(rho, std::sqrt(4 - s * s) / M_PI, 1e-6);
  }
}

TEST(Cubic, WithoutNoiseIsAPointMass) {
  const Complex z(0.3, 0.4);
  EXPECT_LT(std::abs(cubic_cauchy_transform(z, 0.7, 0) - 1.0 / (z - 0.49)), 1e-15);
}

TEST(Cubic, RefusesTheLowerHalfPlaneAndNegativeVariance) {
  EXPECT_NE(refusal([] { cubic_cauchy_transform({1, -1}, 1, 1); }), "");
  EXPECT_NE(refusal([] { cubic_cauchy_transform({1, 1}, 1, -1); }), "");
  EXPECT_NE(refusal([] { cubic_cauchy_transform({1, 1}, std::nan(""), 1); }), "");
}

TEST(ScalarRoute, IsWrongInTheFirstMomentForMixersThatAreNotOrthogonal) {
  const auto mixer = draw_mixer(Mixer::bistochastic, 4, 1);
  const auto chain = make_chain({mixer}, 2, 0.05);
  const auto route = scalar_route_resolvent(mixer, 0.025, 2)();
  const double exact = exact_moments(chain).first;
  const double wrong = contour_moments(route, 2).first;
  // Free factors: the moments multiply.
  EXPECT_NEAR(wrong, std::pow(mixer.squaredNorm() / 4 + 0.025, 2), 1e-9);
  EXPECT_GT(std::abs(wrong - exact), 0.05 * exact);
  const auto grid = spectrum_grid(1.5, 0.02);
  EXPECT_GT(l1_distance(invert(scalar_route_resolvent(mixer, 0.025, 2), grid, 0.02),
                        invert(chain_resolvent(chain), grid, 0.02)),
            0.3);
}

TEST(ScalarRoute, RefusesDepthZeroAndAZeroLayer) {
  EXPECT_EQ(refusal([] { scalar_route_resolvent(Eigen::MatrixXd::Identity(2, 2), 1, 0); }),
            "[spectral] depth must be >= 1, got 0");
  EXPECT_NE(refusal([] { scalar_route_resolvent(Eigen::MatrixXd::Zero(2, 2), 0, 2)(); }), "");
}

}  // namespace
}  // namespace geores::spectral
