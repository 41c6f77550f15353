#include "geores/spectral/chain_equation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>

#include "geores/spectral/density.h"
#include "geores/spectral/mixer.h"
#include "geores/spectral/single_layer.h"
#include "geores/testing/testing.h"

namespace geores::spectral {
namespace {

std::vector<Eigen::MatrixXd> mixers(Mixer kind, int streams, int layers, std::uint64_t seed = 1) {
  std::vector<Eigen::MatrixXd> result;
  for (int l = 0; l < layers; ++l) result.push_back(draw_mixer(kind, streams, seed, l));
  return result;
}

double largest_difference(const Curve& first, const Curve& second) {
  double worst = 0;
  for (std::size_t i = 0; i < first.rho.size(); ++i) {
    worst = std::max(worst, std::abs(first.rho[i] - second.rho[i]));
  }
  return worst;
}

// Mixers of all kinds, all different, unequal variances.
Chain mixed_chain() {
  Chain chain;
  for (const auto kind :
       {Mixer::bistochastic, Mixer::orthogonal, Mixer::gaussian, Mixer::shc, Mixer::grassmann}) {
    const double sigma2 = 0.01 * static_cast<double>(chain.size() + 1);
    chain.push_back({draw_mixer(kind, 4, 3, static_cast<int>(chain.size())), sigma2, std::nullopt});
  }
  return chain;
}

Chain hyper_connection_chain(int streams, int depth) {
  Chain chain;
  for (int l = 0; l < depth; ++l) {
    const Eigen::VectorXd spread = Eigen::VectorXd::LinSpaced(streams, 0.5, 1.5);
    const Eigen::VectorXd gather = Eigen::VectorXd::LinSpaced(streams, 0.6, 0.2);
    chain.push_back({draw_mixer(Mixer::bistochastic, streams, 5, l), 0.05, Branch{spread, gather}});
  }
  return chain;
}

TEST(ChainEquation, OneLayerIsTheSingleLayerEquation) {
  for (const auto kind :
       {Mixer::identity, Mixer::bistochastic, Mixer::gaussian, Mixer::grassmann}) {
    const auto mixer = draw_mixer(kind, 4, 2);
    const auto grid = uniform_grid(0, 3, 100);
    EXPECT_LT(largest_difference(invert(chain_resolvent(make_chain({mixer}, 1, 0.3)), grid, 0.01),
                                 invert(single_layer_resolvent(mixer, 0.3), grid, 0.01)),
              1e-9)
        << static_cast<int>(kind);
  }
}

TEST(ChainEquation, OrthogonalMixersHaveTheLawOfTheIdentityAtEveryDepth) {
  const auto grid = uniform_grid(0, 2, 120);
  for (const int depth : {1, 2, 10, 50}) {
    const auto identity = chain_resolvent(make_chain(mixers(Mixer::identity, 4, 1), depth, 0.05));
    const auto orthogonal =
        chain_resolvent(make_chain(mixers(Mixer::orthogonal, 4, depth), depth, 0.05));
    EXPECT_LT(largest_difference(invert(identity, grid, 0.01), invert(orthogonal, grid, 0.01)),
              1e-9)
        << depth;
  }
}

TEST(ChainEquation, AgreesWithTheScalarRouteWhereThatIsExact) {
  const auto grid = uniform_grid(0.01, 2, 100);
  const Eigen::MatrixXd mixer = 0.9 * draw_mixer(Mixer::orthogonal, 4, 3);
  for (const int depth : {1, 2, 10, 50}) {
    const auto chain = invert(chain_resolvent(make_chain({mixer}, depth, 0.2)), grid, 0.005);
    const auto route = invert(scalar_route_resolvent(mixer, 0.2 / depth, depth), grid, 0.005);
    EXPECT_LT(largest_difference(chain, route), 1e-9) << depth;
  }
}

TEST(ChainEquation, FirstTwoMomentsAreTheExactOnes) {
  std::vector<Chain> chains{mixed_chain(), hyper_connection_chain(3, 4)};
  for (const auto kind :
       {Mixer::identity, Mixer::bistochastic, Mixer::gaussian, Mixer::permutation}) {
    for (const int depth : {1, 2, 10})
      chains.push_back(make_chain(mixers(kind, 4, depth), depth, 0.5));
  }
  for (std::size_t i = 0; i < chains.size(); ++i) {
    const auto resolvent = chain_resolvent(chains[i])();
    const auto theory = contour_moments(resolvent, 1.25 * support_edge(resolvent));
    const auto exact = exact_moments(chains[i]);
    EXPECT_NEAR(theory.first, exact.first, 1e-6 * std::max(1.0, exact.first)) << i;
    EXPECT_NEAR(theory.second, exact.second, 1e-6 * std::max(1.0, exact.second)) << i;
  }
}

TEST(ChainEquation, MassIsOneWithinOneInAThousandAtEpsilonOneInTenThousand) {
  for (const auto kind :
       {Mixer::identity, Mixer::bistochastic, Mixer::orthogonal, Mixer::gaussian}) {
    for (const int depth : {1, 2, 10}) {
      const auto make = chain_resolvent(make_chain(mixers(kind, 4, depth), depth, 0.05));
      const auto grid = spectrum_grid(support_edge(make()), 1e-4);
      EXPECT_NEAR(mass(invert(make, grid, 1e-4)), 1, 1e-3) << static_cast<int>(kind) << depth;
    }
  }
  // At ε = 0.01 the tails beyond the support are missing.
  const auto make = chain_resolvent(make_chain(mixers(Mixer::identity, 4, 1), 1, 0.05));
  EXPECT_LT(mass(invert(make, uniform_grid(0, 1.4, 1000), 0.01)), 0.995);
}

TEST(ChainEquation, BistochasticLayersAtDepthTenPutThreeQuartersOfTheMassBelowATenth) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    const auto make =
        chain_resolvent(make_chain(mixers(Mixer::bistochastic, 4, 10, seed), 10, 0.05));
    EXPECT_NEAR(probability_below(make(), 0.1), 0.75, 0.005) << seed;
    // The curve says the same, read off at a small blur.
    const auto curve = invert(make, uniform_grid(0, 0.1, 1500), 2e-4);
    EXPECT_NEAR(mass(curve), 0.75, 0.01) << seed;
  }
}

TEST(ChainEquation, WorksForEveryNumberOfStreams) {
  for (const int streams : {1, 2, 3, 4, 5, 7, 8, 9}) {
    const auto chain = make_chain(mixers(Mixer::bistochastic, streams, 3), 3, 0.1);
    const auto resolvent = chain_resolvent(chain)();
    const auto theory = contour_moments(resolvent, 1.25 * support_edge(resolvent));
    EXPECT_NEAR(theory.second, exact_moments(chain).second, 1e-6) << streams;
  }
}

TEST(ChainEquation, ResolventMapsTheUpperHalfPlaneToTheLowerOne) {
  const auto resolvent = chain_resolvent(mixed_chain())();
  for (const double s : {0.0, 0.3, 1.0, 5.0}) {
    for (const double eta : {1e-3, 0.1, 2.0}) EXPECT_LT(resolvent({s, eta}).imag(), 0) << s << eta;
  }
  const Complex far(300, 400);
  EXPECT_LT(std::abs(far * resolvent(far) - 1.0), 1e-4);
}

TEST(ChainEquation, AndersonMixingFindsTheSolutionOfTheDampedIteration) {
  for (const auto& chain : {mixed_chain(), hyper_connection_chain(4, 3)}) {
    const auto grid = uniform_grid(0, 2, 40);
    const auto mixed = invert(chain_resolvent(chain), grid, 0.01);
    const auto damped = invert(chain_resolvent(chain, {.memory = 0}), grid, 0.01);
    EXPECT_LT(largest_difference(mixed, damped), 1e-8);
  }
}

TEST(ChainEquation, DeepChainsTakeMillisecondsAPointAndConverge) {
  const struct {
    Mixer mixer;
    int streams, depth, points;
  } cases[] = {{Mixer::orthogonal, 4, 100, 24},
               {Mixer::bistochastic, 4, 100, 24},
               {Mixer::orthogonal, 8, 200, 8},
               {Mixer::bistochastic, 8, 200, 8}};
  for (const auto& c : cases) {
    ChainEquation equation(make_chain(mixers(c.mixer, c.streams, c.depth), c.depth, 0.05));
    const auto start = std::clock();
    for (int i = c.points - 1; i >= 0; --i) {
      EXPECT_LT(equation.solve({1.6 * (i + 0.5) / c.points, 0.02}).imag(), 0);
      EXPECT_LT(equation.residual(), 1e-7);
    }
    const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    std::printf("mixer %d, n = %d, L = %d: %.2f ms a point\n", static_cast<int>(c.mixer), c.streams,
                c.depth, 1e3 * seconds / c.points);
    // Processor time; about 5 ms measured. Wide enough for a sanitizer, tight enough to notice that
    // the acceleration or the compiled sizes are gone.
    if (c.streams == 4) {
      EXPECT_LT(seconds / c.points, 0.1);
    }
  }
}

TEST(ChainEquation, SaysClearlyThatItDidNotConverge) {
  const auto chain = make_chain(mixers(Mixer::bistochastic, 4, 5), 5, 0.05);
  EXPECT_EQ(refusal([&] {
              ChainEquation(chain, {.max_iterations = 3}).solve({1, 0.02});
            }).substr(0, 74),
            "[spectral] the fixed point did not converge at s = 1, eta = 0.02: residual");
  const Eigen::MatrixXd zero = Eigen::MatrixXd::Zero(2, 2);
  EXPECT_EQ(
      refusal([&] {
        ChainEquation(make_chain({zero}, 3, 0)).solve({1, 0.02});
      }),
      "[spectral] the chain is singular at s = 1, eta = 0.02: a mixer that cannot be inverted "
      "needs a branch with sigma2 > 0, a deep contracting chain a larger s or eta");
  EXPECT_NE(refusal([&] {
              invert(chain_resolvent(chain, {.max_iterations = 3}), uniform_grid(0, 2, 200), 0.02);
            }),
            "");
}

TEST(ChainEquation, RefusesPointsOutsideTheUpperHalfPlane) {
  ChainEquation equation(make_chain(mixers(Mixer::identity, 2, 1), 1, 0.1));
  EXPECT_EQ(refusal([&] {
              equation.solve({1, 0});
            }),
            "[spectral] the chain equation needs a finite w with Im w > 0, got 1 + 0i");
  EXPECT_NE(refusal([&] { equation.solve({std::nan(""), 1}); }), "");
}

}  // namespace
}  // namespace geores::spectral
