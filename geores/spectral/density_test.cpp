#include "geores/spectral/density.h"

#include <gtest/gtest.h>

#include <cmath>

#include "geores/spectral/single_layer.h"
#include "geores/testing/testing.h"

namespace geores::spectral {
namespace {

// The quarter circle law on [0, 2]: P(s <= 1) = 1/3 + √3/(2π), E s² = 1, E s⁴ = 2.
ResolventFactory quarter_circle() { return single_layer_resolvent(Eigen::MatrixXd::Zero(1, 1), 1); }

// Half of the singular values at 0.5, half at 2.
ResolventFactory two_points() {
  return
      [] { return [](Complex w) { return 0.5 * w / (w * w - 0.25) + 0.5 * w / (w * w - 4.0); }; };
}

TEST(ProbabilityBelow, IsExactWithoutBlur) {
  const auto law = quarter_circle()();
  EXPECT_NEAR(probability_below(law, 1), 1.0 / 3 + std::sqrt(3) / (2 * M_PI), 1e-5);
  EXPECT_NEAR(probability_below(law, 3), 1, 1e-6);
  const auto points = two_points()();
  EXPECT_NEAR(probability_below(points, 0.3), 0, 1e-6);
  EXPECT_NEAR(probability_below(points, 1), 0.5, 1e-6);
  EXPECT_NEAR(probability_below(points, 2.5), 1, 1e-5);
}

TEST(Quantile, InvertsTheProbability) {
  const auto law = quarter_circle()();
  for (const double q : {0.01, 0.05, 0.5, 0.95}) {
    EXPECT_NEAR(probability_below(law, quantile(law, q)), q, 2e-4) << q;
  }
  EXPECT_NEAR(quantile(two_points()(), 0.25), 0.5, 1e-3);
  EXPECT_NEAR(quantile(two_points()(), 0.75), 2, 1e-3);
}

TEST(SupportEdge, IsWhereTheSpectrumEnds) {
  EXPECT_NEAR(support_edge(quarter_circle()()), 2, 0.01);
  EXPECT_NEAR(support_edge(two_points()()), 2, 0.05);  // a point mass at the edge is the worst case
}

TEST(ContourMoments, OfTheQuarterCircleAreOneAndTwo) {
  const auto moments = contour_moments(quarter_circle()(), 2.5);
  EXPECT_NEAR(moments.first, 1, 1e-9);
  EXPECT_NEAR(moments.second, 2, 1e-9);
}

TEST(Invert, GivesTheQuarterCircle) {
  const auto curve = invert(quarter_circle(), uniform_grid(0.1, 1.9, 50), 1e-6);
  for (std::size_t i = 0; i < curve.s.size(); ++i) {
    EXPECT_NEAR(curve.rho[i], std::sqrt(4 - curve.s[i] * curve.s[i]) / M_PI, 1e-5);
  }
}

TEST(Mass, IsTheIntegralOfThePolygon) {
  const Curve curve{{0, 1, 3}, {0, 2, 0}};
  EXPECT_DOUBLE_EQ(mass(curve), 3);
  EXPECT_DOUBLE_EQ(mass_below(curve, 1), 1);
  EXPECT_DOUBLE_EQ(mass_below(curve, 0.5), 0.25);
  EXPECT_DOUBLE_EQ(mass_below(curve, 2), 2.5);
  EXPECT_DOUBLE_EQ(l1_distance(curve, {{0, 1, 3}, {0, -1, 0}}), 4.5);
}

TEST(SpectrumGrid, CoversTheSupportInStepsOfHalfTheBlur) {
  const auto grid = spectrum_grid(2, 0.02);
  EXPECT_EQ(grid.front(), 0);
  EXPECT_GT(grid.back(), 2.2);
  EXPECT_NEAR(grid[1], 0.01, 1e-15);
  EXPECT_LT(spectrum_grid(2, 1e-9).size(), 10000u);
}

TEST(Density, BadInputIsRefusedInOneLine) {
  EXPECT_EQ(refusal([] {
              invert(quarter_circle(), {1, 2}, 0);
            }),
            "[spectral] eta must be finite and > 0, got 0");
  EXPECT_NE(refusal([] { invert(quarter_circle(), {1, 2}, std::nan("")); }), "");
  EXPECT_EQ(refusal([] {
              invert(quarter_circle(), {2, 1}, 0.1);
            }),
            "[spectral] the grid must be increasing");
  EXPECT_NE(refusal([] { uniform_grid(0, 1, 1); }), "");
  EXPECT_NE(refusal([] { uniform_grid(1, 0, 5); }), "");
  EXPECT_NE(refusal([] { spectrum_grid(2, -1); }), "");
  EXPECT_NE(refusal([] { l1_distance({{0, 1}, {0, 0}}, {{0, 2}, {0, 0}}); }), "");
  EXPECT_NE(refusal([] { probability_below(quarter_circle()(), -1); }), "");
  EXPECT_NE(refusal([] { quantile(quarter_circle()(), 1.5); }), "");
}

}  // namespace
}  // namespace geores::spectral
