// Tables and figures of findings that were made by hand.
#include "geores/experiments/language/language_tables.h"

#include <gtest/gtest.h>

#include "geores/experiments/language/language_figures.h"
#include "geores/experiments/language/papers.h"

namespace geores {
namespace {

// Other texts, and streams beside those of the fixed identity, are read as differences.
TEST(LanguageTables, ComparesWithTheFirstRowAndTheFixedIdentity) {
  auto paper = language_paper("shc", "gpu", "data");
  LanguageFindings all{
      .paper = paper, .scale = "", .hardware = {}, .folder = "", .experiments = {}};
  ExperimentFindings mixers;
  mixers.experiment = paper.experiment("mixers");
  const auto& column = mixers.experiment.columns.front().name;
  for (const auto& arm : mixers.experiment.arms) mixers.cells[column][arm.name] = {};
  const auto measure = [&](const std::string& arm, std::vector<double> bits,
                           std::vector<double> cosines) {
    for (const double bits_of_seed : bits) {
      const auto run = arm + std::to_string(bits_of_seed);
      mixers.cells[column][arm].runs.push_back("runs/" + run);
      all.measured[run]["other_texts"]["speeches"] = {{"bits_per_byte", bits_of_seed},
                                                      {"word_perplexity", 9}};
    }
    if (cosines.empty()) return;
    auto& measured = all.measured[arm + std::to_string(bits[0])];
    const nlohmann::json mean = {{"mean", 1}};
    for (const double cosine : cosines)
      measured["end"]["mixers"]["layers"].push_back({{"cosine", cosine},
                                                     {"composite_norm", mean},
                                                     {"composite_second", mean},
                                                     {"composite_least", mean},
                                                     {"composite_row_sums", {1, 1}},
                                                     {"composite_column_sums", {1, 1}},
                                                     {"composite_forward_gain", 1},
                                                     {"composite_backward_gain", 1}});
  };
  measure("additive", {2.01, 1.99}, {});
  measure("shc", {1.91, 1.89}, {0.25, 0.75});
  measure("identity", {1.95}, {0.5, 0.5});
  const auto table = other_text_table(all, mixers);
  ASSERT_EQ(table.rows.size(), 3u);
  EXPECT_EQ(table.rows[0].at(1), "2.0000 ± 0.0141 (9.0)");
  EXPECT_EQ(table.rows[1].at(1), "1.9000 ± 0.0141, -5.0 %, p = 0.019 (9.0)");
  EXPECT_EQ(table.rows[2].at(1), "1.9500, -2.5 % (9.0)");
  const auto figure = mixer_figure(all, mixers);
  EXPECT_NE(figure.find("less the fixed identity"), std::string::npos);
  EXPECT_NE(figure.find("\"end\">-0.2</text>"), std::string::npos) << figure;
}

TEST(LanguageFigures, QuartersAreTheFirstTheLastAndTwoBetween) {
  using Places = std::vector<std::size_t>;
  EXPECT_EQ(quarters(10), (Places{0, 3, 6, 9}));
  EXPECT_EQ(quarters(2), (Places{0, 1}));
  EXPECT_EQ(quarters(1), (Places{0}));
  EXPECT_EQ(quarters(0), Places{});
}

}  // namespace
}  // namespace geores
