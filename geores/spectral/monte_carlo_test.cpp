#include "geores/spectral/monte_carlo.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "geores/spectral/algebra/decompositions.h"
#include "geores/spectral/chain_equation.h"
#include "geores/spectral/density.h"
#include "geores/spectral/mixer.h"
#include "geores/spectral/printed_equation.h"
#include "geores/spectral/single_layer.h"
#include "geores/testing/testing.h"

namespace geores::spectral {
namespace {

// The setting of JPmHC's Figure 1: n = 4, p = 25, σ²L = 0.05, η = 0.02, 500 samples. The distance
// is ∫ |ρ_theory − ρ_sample| ds on spectrum_grid(), both curves at blur η.
constexpr double kEta = 0.02;
constexpr MonteCarlo figure1{.samples = 500, .block = 25, .seed = 1};

double distance_from_theory(const Chain& chain, const MonteCarlo& how) {
  const auto theory = chain_resolvent(chain);
  const auto grid = spectrum_grid(support_edge(theory()), kEta);
  const auto sample = sample_singular_values(chain, how);
  return l1_distance(invert(theory, grid, kEta), invert(empirical_resolvent(sample), grid, kEta));
}

class Figure1Distance : public testing::TestWithParam<std::tuple<Mixer, int>> {};

TEST_P(Figure1Distance, IsBelowTwoPercent) {
  const auto [kind, depth] = GetParam();
  std::vector<Eigen::MatrixXd> mixers;
  for (int l = 0; l < depth; ++l) mixers.push_back(draw_mixer(kind, 4, 1, l));
  const double distance = distance_from_theory(make_chain(mixers, depth, 0.05), figure1);
  std::printf("mixer %d, L = %d: L1 distance %.4f\n", static_cast<int>(kind), depth, distance);
  EXPECT_LT(distance, 0.02);
}

INSTANTIATE_TEST_SUITE_P(MixersAndDepths, Figure1Distance,
                         testing::Combine(testing::Values(Mixer::identity, Mixer::bistochastic,
                                                          Mixer::orthogonal, Mixer::gaussian),
                                          testing::Values(1, 2, 10)));

TEST(MonteCarlo, AgreesForOneMixerInAllLayers) {
  for (const auto kind : {Mixer::bistochastic, Mixer::gaussian}) {
    const auto chain = make_chain({draw_mixer(kind, 4, 6)}, 10, 0.05);
    EXPECT_LT(distance_from_theory(chain, {.samples = 200}), 0.02) << static_cast<int>(kind);
  }
}

TEST(MonteCarlo, AgreesForLayersOfDifferentKindsAndVariances) {
  Chain chain;
  for (const auto kind :
       {Mixer::shc, Mixer::gaussian, Mixer::cayley, Mixer::bistochastic, Mixer::permutation}) {
    const auto l = static_cast<int>(chain.size());
    chain.push_back({draw_mixer(kind, 4, 3, l), 0.005 * (l + 1), std::nullopt});
  }
  const double distance = distance_from_theory(chain, figure1);
  std::printf("layers of different kinds: L1 distance %.4f\n", distance);
  EXPECT_LT(distance, 0.02);
}

TEST(MonteCarlo, AgreesForTheHyperConnectionBranch) {
  Chain chain;
  for (int l = 0; l < 3; ++l) {
    const Branch branch{Eigen::Vector4d(0.6, 1.1, 0.9, 1.4), Eigen::Vector4d(0.4, 0.1, 0.3, 0.2)};
    chain.push_back({draw_mixer(Mixer::bistochastic, 4, 4, l), 0.5, branch});
  }
  EXPECT_LT(distance_from_theory(chain, {.samples = 200, .block = 40}), 0.02);
}

TEST(MonteCarlo, SeesThatTheScalarTheoryIsWrongForBistochasticMixers) {
  const auto mixer = draw_mixer(Mixer::bistochastic, 4, 1);
  const auto sample = sample_singular_values(make_chain({mixer}, 2, 0.05), {.samples = 50});
  const auto grid = spectrum_grid(1.5, kEta);
  const auto sampled = invert(empirical_resolvent(sample), grid, kEta);
  EXPECT_GT(l1_distance(invert(scalar_route_resolvent(mixer, 0.025, 2), grid, kEta), sampled), 0.3);
}

TEST(MonteCarlo, DoesNotDependOnTheOrderOrThePieces) {
  const auto chain = make_chain({draw_mixer(Mixer::shc, 3, 1)}, 3, 0.2);
  const auto all = sample_singular_values(chain, {.samples = 9, .block = 5}).singular_values;
  const RunJobs backwards = [](int count, const Job& job) {
    for (int i = count; i-- > 0;) job(i);
  };
  EXPECT_EQ(all,
            sample_singular_values(chain, {.samples = 9, .block = 5}, backwards).singular_values);
  auto pieces = sample_singular_values(chain, {.samples = 4, .block = 5}).singular_values;
  for (auto& values :
       sample_singular_values(chain, {.samples = 5, .block = 5, .first = 4}).singular_values)
    pieces.push_back(std::move(values));
  EXPECT_EQ(all, pieces);
  EXPECT_NE(all,
            sample_singular_values(chain, {.samples = 9, .block = 5, .seed = 2}).singular_values);
  EXPECT_NE(all[0], all[1]);
}

TEST(MonteCarlo, WithoutNoiseRepeatsTheSingularValuesOfTheMixer) {
  const auto mixer = draw_mixer(Mixer::gaussian, 3, 1);
  const auto values = sample_singular_values(make_chain({mixer}, 1, 0), {.samples = 1, .block = 4})
                          .singular_values[0];
  const Eigen::VectorXd expected =
      symmetric_eigenvalues(product(mixer.transpose(), mixer)).cwiseSqrt().reverse();
  ASSERT_EQ(values.size(), 12u);
  for (int i = 0; i < 12; ++i) EXPECT_NEAR(values[i], expected[i / 4], 1e-12);
}

TEST(MonteCarlo, SingularValuesAreNeverBelowZero) {
  const Eigen::MatrixXd column = draw_mixer(Mixer::gaussian, 6, 3).leftCols(1);
  const auto values =
      sample_singular_values(make_chain({product(column, column.transpose())}, 1, 0),
                             {.samples = 1, .block = 3})
          .singular_values[0];
  ASSERT_EQ(values.size(), 18u);
  EXPECT_GT(values[2], 0.1) << "of rank one in each of three";
  EXPECT_LT(values[3], 1e-12);
  EXPECT_TRUE(std::is_sorted(values.rbegin(), values.rend()));
  EXPECT_GE(values.back(), 0);
}

TEST(MonteCarlo, KeepsSmallSingularValues) {
  // 1 and 10⁻⁹ in turned bases: through JᵀJ the small one would be lost.
  const Eigen::MatrixXd left = draw_mixer(Mixer::orthogonal, 2, 1),
                        right = draw_mixer(Mixer::orthogonal, 2, 2);
  const auto mixer = product(left * Eigen::Vector2d(1, 1e-9).asDiagonal(), right);
  const auto values = sample_singular_values(make_chain({mixer}, 1, 0), {.samples = 1, .block = 1});
  EXPECT_NEAR(values.singular_values[0][1], 1e-9, 1e-14);
  EXPECT_NEAR(values.median_condition(), 1e9, 1e4);
}

TEST(Sample, CountsAndOrdersItsValues) {
  const auto sample = sample_from({3, 1, 2, 4});
  EXPECT_EQ(sample.all(), (std::vector<double>{1, 2, 3, 4}));
  EXPECT_DOUBLE_EQ(sample.fraction_below(2.5), 0.5);
  EXPECT_DOUBLE_EQ(sample.quantile(0.5), 3);
  EXPECT_DOUBLE_EQ(sample.median_condition(), 4);
  EXPECT_DOUBLE_EQ(sample.moments().first, 7.5);
  EXPECT_DOUBLE_EQ(sample.moments().second, (1 + 16 + 81 + 256) / 4.0);
}

TEST(EmpiricalResolvent, IsTheSumOverTheValues) {
  const auto resolvent = empirical_resolvent(sample_from({0.5, 2}))();
  const Complex w(0.7, 0.1);
  EXPECT_LT(std::abs(resolvent(w) - (w / (w * w - 0.25) + w / (w * w - 4.0)) / 2.0), 1e-15);
}

TEST(MonteCarlo, BadInputIsRefusedInOneLine) {
  const auto chain = make_chain({draw_mixer(Mixer::identity, 2, 1)}, 1, 0.1);
  EXPECT_EQ(refusal([&] { sample_singular_values(chain, {.samples = 0}); }),
            "[monte_carlo] samples must be >= 1, got 0");
  EXPECT_EQ(refusal([&] { sample_singular_values(chain, {.samples = 1, .block = 0}); }),
            "[monte_carlo] block must be >= 1, got 0");
  EXPECT_EQ(refusal([&] { sample_singular_values(chain, {.first = -1}); }),
            "[monte_carlo] the first sample must be >= 0, got -1");
  EXPECT_NE(refusal([&] { sample_singular_values({}, {}); }), "");
  EXPECT_EQ(refusal([] { sample_from({}); }), "[monte_carlo] no singular values given");
  EXPECT_NE(refusal([] { sample_from({1, std::nan("")}); }), "");
  EXPECT_NE(refusal([] { sample_from({-1}); }), "");
}

}  // namespace
}  // namespace geores::spectral
