#include "lab/diagnostics/inspection.h"

#include <gtest/gtest.h>

#include <cmath>

#include "geores/testing/testing.h"

namespace geores {
namespace {

Inspection example() {
  Inspection in;
  in.connection = "edelta";
  in.layout = "split";
  in.blocks = 1;
  in.streams = 2;
  in.state_width = 4;
  in.sequences = 31;
  in.length = 87;
  in.positions = 19;
  for (const auto* name : {"block 0 attention", "block 0 mlp"}) {
    OperatorReport o;
    o.name = name;
    o.gamma = Spread{0.8125, 0.0625, 0.75, 0.875};
    o.sigma_min = o.sigma_max = o.defect = o.composite_norm = Spread{0.5, 0, 0.5, 0.5};
    o.mixer = {1, 2, 3, 4};
    in.operators.push_back(o);
  }
  in.layers.push_back({1.0, 2.0, 3.0, 0.25});
  in.input_cosine = 0.125;
  in.composite = in.composite_of_means = CompositeReport{.norm = {2, 0, 2, 2},
                                                         .sigma_min = {1, 0, 1, 1},
                                                         .second = Spread{1.5, 0, 1.5, 1.5},
                                                         .row_sums = Spread{1, 0, 0.5, 1.5},
                                                         .column_sums = Spread{1, 0, 1, 1}};
  in.residual_path = {{4, 2, 1, 0.05}};
  in.whole_stack = {{3, 1, 0.05, 0}};
  in.warnings = {"γ <is> near ½"};
  return in;
}

TEST(JacobianSpectrum, ConditionIsInfiniteForASingularMap) {
  EXPECT_EQ(example().residual_path.condition(), 80.0);
  EXPECT_TRUE(std::isinf(example().whole_stack.condition()));
  EXPECT_EQ(example().whole_stack.share_below(0.1), 0.5);
  EXPECT_EQ(example().residual_path.share_below(0.05), 0.0);
}

TEST(InspectionTable, ShowsValuesWithSpreadAndLeavesOutColumnsWithoutValues) {
  const auto text = example().to_table();
  EXPECT_NE(text.find("0.812 ± 0.06"), text.npos) << text;
  EXPECT_NE(text.find("0.5 to 1.5"), text.npos) << text;
  EXPECT_NE(text.find("warning: γ <is> near ½"), text.npos);
  EXPECT_NE(text.find("50.0 %"), text.npos);
  for (const auto* number : {" 31 ", " 87", " 19 "}) EXPECT_NE(text.find(number), text.npos);
  EXPECT_EQ(text.find("β"), text.npos) << "there is no β here";
  EXPECT_EQ(text.find(" \n"), text.npos) << "no blanks at the end of a line";
}

TEST(InspectionJson, KeepsEveryNumberAndWritesNullForWhatIsNotThere) {
  const auto json = nlohmann::json::parse(example().to_json().dump());
  EXPECT_EQ(json["operators"][1]["gamma"]["deviation"], 0.0625);
  EXPECT_TRUE(json["operators"][0]["beta"].is_null());
  EXPECT_EQ(json["operators"][0]["mean_mixer"], (std::vector<double>{1, 2, 3, 4}));
  EXPECT_EQ(json["layers"][0]["effective_rank"], 3.0);
  EXPECT_EQ(json["layers"][0]["stream_cosine"], 0.25);
  EXPECT_EQ(json["composite"]["row_sums"]["most"], 1.5);
  EXPECT_EQ(json["jacobian"]["residual_path"]["condition"], 80.0);
  EXPECT_TRUE(json["jacobian"]["whole_stack"]["condition"].is_null());
  EXPECT_EQ(json["jacobian"]["whole_stack"]["singular_values"].size(), 4u);
}

int64_t drawings(const std::string& page) {
  int64_t count = 0;
  for (auto at = page.find("<svg "); at != page.npos; at = page.find("<svg ", at + 1)) ++count;
  return count;
}

TEST(InspectionPage, IsOneEscapedFileThatLoadsNothing) {
  const auto page = to_page(example(), "runs/<a>&b");
  EXPECT_NE(page.find("<title>runs/&lt;a&gt;&amp;b</title>"), page.npos);
  EXPECT_NE(page.find("γ &lt;is&gt; near ½"), page.npos);
  EXPECT_EQ(page.find("<is>"), page.npos);
  EXPECT_EQ(page.find("<script"), page.npos);
  EXPECT_EQ(page.find("src="), page.npos);
  EXPECT_EQ(page.find("href="), page.npos);
  EXPECT_NE(page.find(">γ</text>"), page.npos);
  EXPECT_EQ(page.find(">β</text>"), page.npos) << "a chart without values";
}

TEST(InspectionPage, DrawsAConnectionWithoutOperators) {
  auto in = example();
  const auto with_cosines = drawings(to_page(in, "streams"));
  in.input_cosine = std::nullopt;
  EXPECT_EQ(drawings(to_page(in, "streams")), with_cosines - 2) << "a panel and its frame";
  in.composite = in.composite_of_means = std::nullopt;
  in.operators.assign(2, OperatorReport());
  const auto page = to_page(in, "post-norm");
  EXPECT_EQ(page.find(">γ</text>"), page.npos);
  EXPECT_GE(drawings(page), 4) << "a figure with norms, ranks and singular values";
}

}  // namespace
}  // namespace geores
