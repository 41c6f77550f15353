#include "lab/spectrum/spectral_gap.h"

#include <gtest/gtest.h>

#include <Eigen/Eigenvalues>

#include <ctime>

#include "geores/spectral/algebra/decompositions.h"
#include "geores/testing/testing.h"
#include "lab/spectrum/symmetric_group.h"

namespace geores::spectral {
namespace {

TEST(SpectralGap, OfFourPermutationsOfThreeStreams) {
  const auto found = search_spectral_gap(3, 4);
  EXPECT_EQ(found.subsets, 15);
  EXPECT_EQ(found.generating, 15);
  EXPECT_NEAR(found.best_gap, 0.75, 1e-9);
}

TEST(SpectralGap, OfFourPermutationsOfFourStreams) {
  const auto start = std::clock();
  const auto found = search_spectral_gap(4, 4);
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  EXPECT_EQ(found.subsets, 10626);
  EXPECT_EQ(found.generating, 9864);
  EXPECT_NEAR(found.best_gap, 0.56699, 5e-6);
  EXPECT_EQ(found.best_count, 144);
  EXPECT_LT(seconds, 0.5);  // of processor time, 0.02 measured
}

TEST(SpectralGap, OfTheSetItNamesIsTheGapOfTheRegularRepresentation) {
  const auto found = search_spectral_gap(4, 3);
  const SymmetricGroup group(4);
  Eigen::MatrixXd walk = Eigen::MatrixXd::Zero(24, 24);
  for (int g = 0; g < 24; ++g) {
    for (const auto& p : found.best) {
      if (group.element(g) != p) continue;
      for (int h = 0; h < 24; ++h) walk(group.product(g, h), h) += 1.0 / 3;
    }
  }
  Eigen::VectorXd sizes = walk.eigenvalues().cwiseAbs();
  std::sort(sizes.begin(), sizes.end());
  EXPECT_NEAR(sizes[23], 1, 1e-12);
  EXPECT_NEAR(1 - sizes[22], found.best_gap, 1e-9);
}

TEST(SpectralGap, DoesNotDependOnTheThreads) {
  const auto one = search_spectral_gap(4, 3, 60, 1), three = search_spectral_gap(4, 3, 60, 3);
  EXPECT_EQ(one.best, three.best);
  EXPECT_EQ(one.best_count, three.best_count);
  EXPECT_EQ(one.generating, three.generating);
}

TEST(SpectralGap, RefusesWithAnEstimateWhatTakesTooLong) {
  const auto text = refusal([] { search_spectral_gap(6, 4); });
  EXPECT_TRUE(
      text.starts_with("[spectral-gap] 6 streams with 4 generators have 1.11e+10 subsets, about "))
      << text;
  EXPECT_NE(refusal([] { search_spectral_gap(5, 4, 0.5); }), "");
}

TEST(SpectralGap, BadInputIsRefusedInOneLine) {
  EXPECT_EQ(refusal([] { search_spectral_gap(7, 4); }),
            "[spectral-gap] streams must be 2 ... 6, got 7");
  EXPECT_EQ(refusal([] { search_spectral_gap(1, 1); }),
            "[spectral-gap] streams must be 2 ... 6, got 1");
  EXPECT_EQ(refusal([] { search_spectral_gap(3, 7); }),
            "[spectral-gap] generators must be 1 ... 6 for 3 streams, got 7");
  EXPECT_EQ(refusal([] { search_spectral_gap(3, 0); }),
            "[spectral-gap] generators must be 1 ... 6 for 3 streams, got 0");
  EXPECT_EQ(refusal([] { search_spectral_gap(4, 1); }),
            "[spectral-gap] no set of 1 permutations generates S_4");
}

TEST(SymmetricGroup, IrreduciblesAreOrthogonalRepresentationsThatFillTheRegularOne) {
  for (const int n : {2, 3, 4, 5}) {
    const SymmetricGroup group(n);
    std::int64_t filled = 1;  // the trivial one
    for (const auto& matrices : group.irreducibles()) {
      const auto d = matrices[0].rows();
      filled += d * d;
      for (int g = 0; g < group.order(); g += 3) {
        EXPECT_LT((product(matrices[g].transpose(), matrices[g]) - Eigen::MatrixXd::Identity(d, d))
                      .norm(),
                  1e-12);
        for (int h = 0; h < group.order(); h += 7) {
          EXPECT_LT((product(matrices[g], matrices[h]) - matrices[group.product(g, h)]).norm(),
                    1e-12);
        }
      }
      double character = 0;  // ⟨χ, χ⟩ = 1 exactly for irreducible ones
      for (const auto& matrix : matrices) character += matrix.trace() * matrix.trace();
      EXPECT_NEAR(character / group.order(), 1, 1e-9);
    }
    EXPECT_EQ(filled, group.order());
  }
}

}  // namespace
}  // namespace geores::spectral
