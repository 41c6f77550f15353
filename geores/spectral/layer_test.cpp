#include "geores/spectral/layer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "geores/spectral/algebra/decompositions.h"
#include "geores/spectral/mixer.h"
#include "geores/spectral/monte_carlo.h"
#include "geores/testing/testing.h"

namespace geores::spectral {
namespace {

TEST(ExactMoments, OfAScalarSkipAreTheTextbookOnes) {
  for (const double a : {0.0, 0.5, 1.3}) {
    const double s = 0.3;
    const Eigen::MatrixXd skip = a * Eigen::MatrixXd::Identity(3, 3);
    const auto moments = exact_moments(make_chain({skip}, 1, s));
    EXPECT_NEAR(moments.first, a * a + s, 1e-14);
    EXPECT_NEAR(moments.second, std::pow(a, 4) + 4 * a * a * s + 2 * s * s, 1e-14);
  }
  // L layers of a scalar skip: E s² = (a² + σ²)^L.
  const Eigen::MatrixXd skip = 0.8 * Eigen::MatrixXd::Identity(2, 2);
  EXPECT_NEAR(exact_moments(make_chain({skip}, 7, 0.7)).first, std::pow(0.64 + 0.1, 7), 1e-14);
}

TEST(ExactMoments, WithoutNoiseAreThoseOfTheProduct) {
  const auto first = draw_mixer(Mixer::gaussian, 4, 1, 0),
             second = draw_mixer(Mixer::gaussian, 4, 1, 1);
  const auto both = product(second, first), k = product(both, both.transpose());
  const auto moments = exact_moments(make_chain({first, second}, 2, 0));
  EXPECT_NEAR(moments.first, k.trace() / 4, 1e-13);
  EXPECT_NEAR(moments.second, k.squaredNorm() / 4, 1e-13);
}

TEST(ExactMoments, AgreeWithMonteCarloForPlainAndHyperConnectionBranches) {
  Chain plain = make_chain(
      {draw_mixer(Mixer::gaussian, 3, 2, 0), draw_mixer(Mixer::bistochastic, 3, 2, 1)}, 3, 1.2);
  Chain hyper = plain;
  for (auto& layer : hyper) {
    layer.branch = Branch{Eigen::Vector3d(0.5, 1, 1.2), Eigen::Vector3d(0.2, 0.7, 0.4)};
  }
  for (const auto& chain : {plain, hyper}) {
    const auto exact = exact_moments(chain);
    const auto sampled = sample_singular_values(chain, {.samples = 20, .block = 80}).moments();
    EXPECT_NEAR(sampled.first, exact.first, 0.01 * exact.first);
    EXPECT_NEAR(sampled.second, exact.second, 0.03 * exact.second);
  }
}

TEST(Chain, SharesTheVarianceAndRepeatsTheMixers) {
  const Eigen::MatrixXd a = Eigen::MatrixXd::Identity(2, 2), b = 2 * a;
  const auto chain = make_chain({a, b}, 5, 0.05);
  ASSERT_EQ(chain.size(), 5u);
  EXPECT_EQ(chain[2].mixer, a);
  EXPECT_EQ(chain[3].mixer, b);
  EXPECT_DOUBLE_EQ(chain[4].sigma2, 0.01);
}

TEST(Chain, BadInputIsRefusedInOneLine) {
  const Eigen::MatrixXd two = Eigen::MatrixXd::Identity(2, 2),
                        three = Eigen::MatrixXd::Identity(3, 3);
  EXPECT_EQ(refusal([&] { make_chain({two}, 0, 0.1); }), "[spectral] depth must be >= 1, got 0");
  EXPECT_EQ(refusal([&] { make_chain({two}, 2, -0.1); }),
            "[spectral] total sigma2 must be finite and >= 0, got -0.1");
  EXPECT_NE(refusal([&] { make_chain({two}, 2, std::nan("")); }), "");
  EXPECT_EQ(refusal([&] { make_chain({}, 2, 0.1); }), "[spectral] no mixer given");
  EXPECT_EQ(refusal([&] {
              make_chain({two, three}, 2, 0.1);
            }),
            "[spectral] mixer of layer 2 has 3 streams, layer 1 has 2");
  EXPECT_EQ(refusal([&] { make_chain({Eigen::MatrixXd::Ones(2, 3)}, 1, 0.1); }),
            "[spectral] mixer of layer 1 must be square, got 2 x 3");
  EXPECT_EQ(refusal([&] { make_chain({two * std::nan("")}, 1, 0.1); }),
            "[spectral] mixer of layer 1 has a NaN or infinite entry");
  EXPECT_EQ(refusal([&] { check({}); }), "[spectral] depth must be >= 1, got 0");
  EXPECT_EQ(refusal([&] {
              check({{two, -1, std::nullopt}});
            }),
            "[spectral] sigma2 of layer 1 must be finite and >= 0, got -1");
  const Branch branch{Eigen::Vector3d::Ones(), Eigen::Vector2d::Ones()};
  EXPECT_EQ(refusal([&] {
              check({{two, 1, branch}});
            }),
            "[spectral] branch of layer 1 needs vectors of length 2, got 3 and 2");
}

}  // namespace
}  // namespace geores::spectral
