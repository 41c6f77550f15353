#include "lab/spectrum/prediction.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "geores/testing/testing.h"
#include "lab/spectrum/figure1.h"
#include "lab/spectrum/mixer_name.h"

namespace geores::spectral {
namespace {

TEST(Prediction, TheoryMonteCarloAndExactMomentsSayTheSame) {
  const auto chain = make_chain({make_mixer("bistochastic", 4, 1)}, 3, 0.1);
  const auto p = predict(
      chain, {.threads = 1, .monte_carlo = MonteCarlo{.samples = 60, .block = 25}, .measured = {}});
  EXPECT_NEAR(p.summary.moments.first, p.exact.first, 1e-6);
  EXPECT_NEAR(p.summary.moments.second, p.exact.second, 1e-6);
  ASSERT_TRUE(p.monte_carlo);
  EXPECT_NEAR(p.monte_carlo->summary.near_zero, p.summary.near_zero, 0.02);
  EXPECT_NEAR(p.monte_carlo->summary.high, p.summary.high, 0.03);
  EXPECT_LT(p.monte_carlo->distance, 0.04);
  EXPECT_GT(p.printed_distance, 2 * p.monte_carlo->distance);
  EXPECT_NEAR(p.mass, 0.985, 0.01);
  EXPECT_FALSE(p.measured);
}

TEST(Prediction, DrawsWhatItHas) {
  const auto chain = make_chain({make_mixer("identity", 2, 1)}, 2, 0.1);
  const auto bare = draw(
      predict(chain, {.printed = false, .threads = 1, .monte_carlo = {}, .measured = {}}), "a");
  ASSERT_EQ(bare.series.size(), 1u);
  const auto& theory = bare.series[0];
  EXPECT_EQ(theory.mark, svg::Mark::Line);
  const auto full = draw(predict(chain, {.threads = 1,
                                         .monte_carlo = MonteCarlo{.samples = 3, .block = 5},
                                         .measured = {0.9, 1.1}}),
                         "a");
  ASSERT_EQ(full.series.size(), 4u);
  // Monte Carlo, then the measured values around 1.
  for (const auto i : {0, 1}) EXPECT_EQ(full.series.at(i).mark, svg::Mark::Steps);
  const auto& measured = full.series[1];
  const auto peak = std::max_element(measured.y.begin(), measured.y.end()) - measured.y.begin();
  EXPECT_NEAR(measured.x[static_cast<std::size_t>(peak)], 1, 0.12);
  EXPECT_NE(full.series[2].y, theory.y) << "the printed equation";
  EXPECT_EQ(full.series[3].y, theory.y);
  EXPECT_NE(full.note.find(" 0.1"), std::string::npos);
  EXPECT_NO_THROW(svg::render({.title = "", .subtitle = "", .panels = {bare, full}}));
}

TEST(Prediction, ReportsThatThePrintedEquationHasNoSolution) {
  // A case met by search: orthogonal mixers of seed 3.
  const auto chain =
      make_chain({make_mixer("orthogonal", 4, 3, 0), make_mixer("orthogonal", 4, 3, 1)}, 2, 0.05);
  const auto p = predict(chain, {.threads = 1, .monte_carlo = {}, .measured = {}});
  EXPECT_TRUE(p.printed.s.empty());
  EXPECT_NE(p.printed_failure.find("no reachable fixed point"), std::string::npos);
}

TEST(Figure1, HasFourMixersAtThreeDepths) {
  const Figure1Options options{.block = 4, .samples = 2, .threads = 1};
  const auto panels = compute_figure1(options);
  ASSERT_EQ(panels.size(), 12u);
  EXPECT_EQ(panels[5].mixer, "bistochastic");
  EXPECT_EQ(panels[5].depth, 10);
  EXPECT_NEAR(panels[5].prediction.summary.near_zero, 0.75, 0.005);
  const auto figure = draw_figure1(panels, options);
  EXPECT_EQ(figure.columns, 3);
  EXPECT_EQ(figure.panels.size(), 12u);
}

TEST(Prediction, BadInputIsRefusedInOneLine) {
  const auto chain = make_chain({make_mixer("identity", 2, 1)}, 2, 0.1);
  EXPECT_NE(refusal([&] { predict(chain, {.eta = -1, .monte_carlo = {}, .measured = {}}); }), "");
  EXPECT_NE(refusal([&] { predict(chain, {.near_zero = 0, .monte_carlo = {}, .measured = {}}); }),
            "");
  EXPECT_NE(refusal([&] { predict(chain, {.threads = -1, .monte_carlo = {}, .measured = {}}); }),
            "");
  EXPECT_NE(refusal([&] { predict({}, {.monte_carlo = {}, .measured = {}}); }), "");
}

}  // namespace
}  // namespace geores::spectral
