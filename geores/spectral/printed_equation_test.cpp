#include "geores/spectral/printed_equation.h"

#include <gtest/gtest.h>

#include "geores/spectral/algebra/decompositions.h"
#include "geores/spectral/chain_equation.h"
#include "geores/spectral/density.h"
#include "geores/spectral/mixer.h"
#include "geores/testing/testing.h"

namespace geores::spectral {
namespace {

double distance_from_truth(const Chain& chain) {
  const auto grid = spectrum_grid(support_edge(chain_resolvent(chain)()), 0.02);
  return l1_distance(invert(printed_resolvent(chain), grid, 0.02),
                     invert(chain_resolvent(chain), grid, 0.02));
}

TEST(PrintedEquation, LosesTheNoiseFromTheFirstMoment) {
  const double a = 0.8;
  const Eigen::MatrixXd skip = a * Eigen::MatrixXd::Identity(3, 3);
  const auto chain = make_chain({skip}, 1, 0.1);
  EXPECT_NEAR(contour_moments(printed_resolvent(chain)(), 4).first, a * a, 1e-6);
  EXPECT_NEAR(exact_moments(chain).first, a * a + 0.1, 1e-12);
}

TEST(PrintedEquation, IsNinePercentOffForTheIdentityAtEveryDepth) {
  for (const int depth : {1, 2, 10}) {
    EXPECT_NEAR(distance_from_truth(make_chain({draw_mixer(Mixer::identity, 4, 1)}, depth, 0.05)),
                0.095, 0.003);
  }
}

TEST(PrintedEquation, ChangesUnderAnOrthogonalMixerThoughTheLawDoesNot) {
  EXPECT_GT(distance_from_truth(make_chain({draw_mixer(Mixer::orthogonal, 4, 1)}, 1, 0.05)), 0.4);
}

TEST(PrintedEquation, WithoutNoiseIsTheSpectrumOfTheProduct) {
  const auto chain = make_chain(
      {draw_mixer(Mixer::gaussian, 3, 1, 0), draw_mixer(Mixer::gaussian, 3, 1, 1)}, 2, 0);
  const Eigen::MatrixXd both = product(chain[1].mixer, chain[0].mixer);
  const Eigen::MatrixXcd gram = product(both.transpose(), both).cast<Complex>();
  const Complex w(0.9, 0.2);
  const Complex expected =
      w * inverse(w * w * Eigen::MatrixXcd::Identity(3, 3) - gram).trace() / 3.0;
  EXPECT_LT(std::abs(printed_resolvent(chain)()(w)-expected), 1e-12);
}

TEST(PrintedEquation, RefusesHyperConnectionBranches) {
  auto chain = make_chain({draw_mixer(Mixer::identity, 2, 1)}, 1, 0.1);
  chain[0].branch = Branch{Eigen::Vector2d::Ones(), Eigen::Vector2d::Ones()};
  EXPECT_EQ(refusal([&] { printed_resolvent(chain); }),
            "[spectral] the equation as printed supports plain branches only");
}

}  // namespace
}  // namespace geores::spectral
