// Diagnostics of mixers on matrices whose values are known by hand.
#include "lab/diagnostics/mixer_report.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <sstream>

#include "geores/base/file.h"
#include "geores/model/transformer/transformer.h"
#include "geores/modules/seeding.h"
#include "geores/testing/testing.h"
#include "lab/diagnostics/diagnostics_log.h"
#include "lab/diagnostics/inspect.h"
#include "lab/diagnostics/measures.h"

namespace geores {
namespace {

using Values = std::vector<double>;

Tensor matrix(std::vector<double> values) {
  const auto n = static_cast<int64_t>(std::lround(std::sqrt(values.size())));
  return torch::tensor(values, torch::kFloat64).view({n, n});
}

const Tensor kIdentity = torch::eye(3, torch::kFloat64);
const Tensor kUniform = torch::full({3, 3}, 1.0 / 3, torch::kFloat64);
const Tensor kCycle = matrix({0, 1, 0, 0, 0, 1, 1, 0, 0});
const Tensor kTwo = matrix({0.9, 0.1, 0.2, 0.8});

void expect_near(const Values& found, const Values& wanted, double limit = 1e-12) {
  ASSERT_EQ(found.size(), wanted.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], wanted[i], limit) << i;
}

TEST(MixerMeasures, QuantilesAreLinearBetweenValues) {
  expect_near(quantiles(torch::arange(101, torch::kFloat64), {0, 0.1, 0.5, 0.995, 1}),
              {0, 10, 50, 99.5, 100});
  expect_near(quantiles(torch::tensor({3.0, 1.0}), {0.25}), {1.5});
  expect_near(five_quantiles(torch::tensor({7.0})), {7, 7, 7, 7, 7});
}

TEST(MixerMeasures, RowMaximaAndDiagonalShare) {
  EXPECT_EQ(row_maxima(kIdentity).min().item<double>(), 1.0);
  EXPECT_NEAR(row_maxima(kUniform).max().item<double>(), 1.0 / 3, 1e-15);
  EXPECT_TRUE(torch::allclose(row_maxima(kTwo), torch::tensor({0.9, 0.8}, torch::kFloat64)));
  EXPECT_EQ(diagonal_share(kIdentity), 1.0);
  EXPECT_EQ(diagonal_share(kUniform), 0.0) << "a tie is not on the diagonal";
  EXPECT_EQ(diagonal_share(kCycle), 0.0);
  EXPECT_EQ(diagonal_share(kTwo), 1.0);
  EXPECT_EQ(diagonal_share(torch::stack({kIdentity, kCycle, kIdentity, kUniform})), 0.5);
  EXPECT_EQ(diagonal_share(matrix({0.9, 0.1, 0.8, 0.2})), 0.0) << "one row is enough";
}

TEST(MixerMeasures, GainsAreTheLargestSumsOfRowsAndColumns) {
  const auto a = matrix({1, -3, 2, 0.5});
  EXPECT_EQ(forward_gain(a).item<double>(), 2.5);
  EXPECT_EQ(backward_gain(a).item<double>(), 3.0);
  for (const auto& stochastic : {kIdentity, kUniform, kCycle}) {
    EXPECT_NEAR(forward_gain(stochastic).item<double>(), 1, 1e-15);
    EXPECT_NEAR(backward_gain(stochastic).item<double>(), 1, 1e-15);
  }
  EXPECT_NEAR(forward_gain(kTwo).item<double>(), 1, 1e-15);
  EXPECT_NEAR(backward_gain(kTwo).item<double>(), 1.1, 1e-15);
}

TEST(MixerMeasures, HistogramAndNegativeShare) {
  const auto counts = entry_histogram(matrix({-1, 0, 1.5, -7}));
  ASSERT_EQ(counts.size(), 101u);
  EXPECT_EQ(counts.front(), 2) << "−1 and below";
  EXPECT_EQ(counts[40], 1) << "0 is 40.4 bins above −1";
  EXPECT_EQ(counts.back(), 1);
  EXPECT_EQ(negative_share(matrix({-1, 0, 1.5, -7})), 0.5);
  EXPECT_EQ(entry_histogram(kIdentity)[80], 3) << "1 is 80.8 bins above −1";
}

TEST(MixerMeasures, GradientNormsByWindow) {
  std::vector<double> norms;
  for (int i = 0; i < 150; ++i) norms.push_back(i);
  const auto found = describe_gradient_norms(norms, 119.5);
  ASSERT_EQ(found.windows.size(), 2u);
  EXPECT_EQ(found.windows[0].median, 49.5);
  EXPECT_NEAR(found.windows[0].high, 98.01, 1e-12);
  EXPECT_EQ(found.windows[0].most, 99);
  EXPECT_EQ(found.windows[1].first, 100);
  EXPECT_EQ(found.windows[1].median, 124.5);
  EXPECT_NEAR(found.clipped, 0.2, 1e-15);
  EXPECT_EQ(describe_gradient_norms({}, 1).windows.size(), 0u);
}

TEST(BetaMeasures, MeanVarianceSignAndDepth) {
  const auto report = describe_beta(torch::tensor({-1.0, 0.0, 1.0, 2.0}));
  EXPECT_EQ(report.mean, 0.5);
  EXPECT_EQ(report.variance, 1.25);
  EXPECT_EQ(report.negative, 0.25);
  expect_near(report.quantiles, {-0.97, -0.85, 0.5, 1.85, 1.97}, 1e-6);
  const auto with_means = [](const Values& means) {
    std::vector<BetaReport> all;
    for (const auto mean : means) all.push_back({.mean = mean});
    return describe_beta_depth(all);
  };
  EXPECT_EQ(with_means({1, -1, 0.5, -0.25, -0.5}).first_below_zero, 3);
  EXPECT_EQ(with_means({1, -1, 0.5, -0.25, -0.5}).sharpness, 2);
  EXPECT_EQ(with_means({1, 2}).first_below_zero, -1);
  EXPECT_EQ(with_means({-1, -2}).first_below_zero, 0);
}

TEST(RelativeRank, OfGaussianAndRankOneMatrices) {
  torch::manual_seed(1);
  EXPECT_NEAR(relative_rank(torch::randn({256, 256})).item<double>(), 0.806, 0.004);
  EXPECT_NEAR(relative_rank(torch::randn({128, 256})).item<double>(), 0.928, 0.004);
  const auto one = torch::randn({256, 1}).matmul(torch::randn({1, 256}));
  EXPECT_NEAR(relative_rank(one).item<double>(), 1.0 / 256, 1e-5);
}

std::shared_ptr<Transformer> model_with(const std::string& connection, nlohmann::json options,
                                        int64_t streams = 3, int64_t layers = 2) {
  auto model = with_seed(7, [&] {
    return std::make_shared<Transformer>(TransformerConfig{.connection = connection,
                                                           .input = "tokens",
                                                           .layers = layers,
                                                           .width = 8,
                                                           .heads = 2,
                                                           .streams = streams,
                                                           .context = 6,
                                                           .vocabulary = 11,
                                                           .options = std::move(options)});
  });
  model->to(torch::kFloat64);
  return model;
}

// The static part of every mixer; the dynamic part is zero at the start.
void set_mixers(Transformer& model, const std::vector<Tensor>& values) {
  const torch::NoGradGuard no_grad;
  size_t next = 0;
  for (const auto& item : model.named_parameters()) {
    if (item.key().ends_with("residual.res.bias"))
      item.value().copy_(values[next++ % values.size()]);
    // Streams that are written alike would stay equal.
    if (item.key().ends_with("residual.post.bias"))
      item.value().copy_(torch::arange(1, item.value().numel() + 1, torch::kFloat64));
  }
}

Tensor ids() {
  torch::manual_seed(3);
  return torch::randint(11, {3, 6}, torch::kInt64);
}

TEST(MixerReport, KnownMixersGiveKnownNumbersAtEveryDepth) {
  const auto model = model_with("hc", nullptr);
  const auto a = matrix({0.5, 0.5, 0, 0, 1, 0, 0.25, 0, 0.75});
  set_mixers(*model, {kCycle, a, kIdentity, kUniform});
  const auto report = describe_mixers(*model, ids(), {.sequences = 2, .positions = 4});
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->matrices, 8);
  ASSERT_EQ(report->layers.size(), 4u);
  EXPECT_EQ(report->diagonal, 0.25) << "identity; a has a tie";
  expect_near(report->layers[1].column_sums, {0.75, 0.75, 0.75, 1.5, 1.5}, 1e-9);
  expect_near(report->layers[1].row_sums, {1, 1, 1, 1, 1});
  expect_near(report->layers[1].mean, {0.5, 0.5, 0, 0, 1, 0, 0.25, 0, 0.75});
  EXPECT_NEAR(report->layers[1].backward_gain, 1.5, 1e-12);
  // a · cycle, then the identity, then J: the mean of its columns.
  const auto product = a.matmul(kCycle);
  const auto sigma = singular_values(product);
  for (const size_t depth : {1u, 2u}) {
    EXPECT_NEAR(report->layers[depth].composite_norm.mean, sigma[0].item<double>(), 1e-12);
    EXPECT_NEAR(report->layers[depth].composite_second.mean, sigma[1].item<double>(), 1e-12);
    EXPECT_NEAR(report->layers[depth].composite_least.mean, sigma[2].item<double>(), 1e-12);
    EXPECT_NEAR(report->layers[depth].composite_norm.deviation, 0, 1e-12);
    EXPECT_NEAR(report->layers[depth].composite_backward_gain, 1.5, 1e-12);
    expect_near(report->layers[depth].composite_row_sums, {1, 1, 1, 1, 1});
    // A cycle only moves a's columns.
    expect_near(report->layers[depth].composite_column_sums, {0.75, 0.75, 0.75, 1.5, 1.5}, 1e-9);
    EXPECT_NEAR(report->layers[depth].composite_forward_gain, 1, 1e-12);
  }
  EXPECT_NEAR(report->layers[3].composite_second.mean, 0, 1e-12) << "J has rank one";
  EXPECT_NEAR(report->layers[3].cosine, 1, 1e-12) << "J makes all streams equal";
  EXPECT_NEAR(report->layers[0].cosine_before, 1, 1e-12) << "streams enter equal";
  EXPECT_LT(report->layers[2].cosine, 1 - 1e-6);
  EXPECT_EQ(report->thirds.size(), 2u) << "four mixers in chunks of two";
  EXPECT_EQ(report->to_json()["layers"].size(), 4u);
  EXPECT_EQ(report->tables().size(), 2u);
  EXPECT_FALSE(describe_mixers(*model_with("additive", nullptr), ids()).has_value());
}

// Products are of H_l ⋯ H_1, the later one on the left: rows and columns are not swapped.
TEST(MixerReport, SumsAndGainsOfAProductAreThoseOfItsRowsAndColumns) {
  const auto model = model_with("hc", nullptr, 2, 1);
  set_mixers(*model, {matrix({1, 2, 0, 1}), matrix({1, 0, -3, 1})});
  const auto report = describe_mixers(*model, ids(), {.sequences = 2, .positions = 4});
  ASSERT_EQ(report->layers.size(), 2u);
  // The second times the first: (1, 2; −3, −5), with row sums 3 and −8, column sums −2 and −3.
  const auto& both = report->layers[1];
  expect_near(both.composite_mean, {1, 2, -3, -5});
  expect_near(both.composite_row_sums, {-8, -8, -2.5, 3, 3}, 1e-9);
  expect_near(both.composite_column_sums, {-3, -3, -2.5, -2, -2}, 1e-9);
  EXPECT_NEAR(both.composite_forward_gain, 8, 1e-12);
  EXPECT_NEAR(both.composite_backward_gain, 3, 1e-12);
  EXPECT_NEAR(both.forward_gain, 2, 1e-12);
}

TEST(MixerReport, ThirdsOfTheDepthHaveTheirOwnEntries) {
  const auto model = model_with("hc", nullptr, 2, 3);
  const auto none = matrix({1, 0, 0, 1}), one = matrix({1, -0.5, 0, 1}),
             three = matrix({-1, -0.5, -0.5, 1});
  set_mixers(*model, {none, none, none, one, three, three});
  const auto report = describe_mixers(*model, ids(), {.sequences = 2, .positions = 4});
  ASSERT_EQ(report->thirds.size(), 3u);
  // Two mixers of four entries in each, of 8 tokens.
  EXPECT_EQ(report->thirds[0].negative, 0);
  EXPECT_EQ(report->thirds[1].negative, 1.0 / 8);
  EXPECT_EQ(report->thirds[2].negative, 6.0 / 8);
  const auto bin = [](double entry) {
    return static_cast<size_t>((entry - kLeastEntry) / (kMostEntry - kLeastEntry) * kEntryBins);
  };
  for (const size_t i : {0u, 1u, 2u}) {
    const auto& entries = report->thirds[i].entries;
    EXPECT_EQ(std::accumulate(entries.begin(), entries.end(), int64_t{0}), 64) << i;
    EXPECT_EQ(entries[bin(-0.5)], (std::vector<int64_t>{0, 8, 32})[i]) << i;
    EXPECT_EQ(entries[bin(-1)], (std::vector<int64_t>{0, 0, 16})[i]) << i;
    EXPECT_EQ(entries[bin(1)], (std::vector<int64_t>{32, 32, 16})[i]) << i;
  }
}

Tensor loss_of(Transformer& model, const Tensor& x, const Tensor& y) {
  Trace trace;
  return task_loss(model.forward(x, trace), y);
}

TEST(MixerUse, IsTheLossOfTheModelWithThoseMixers) {
  const auto model = model_with("hc", nullptr);
  const auto x = ids(), y = x.roll(1, 1);
  const std::vector<Batch> batches = {{x.slice(0, 0, 2), y.slice(0, 0, 2)},
                                      {x.slice(0, 2), y.slice(0, 2)}};
  const auto a = matrix({0.5, 0.5, 0, 0, 1, 0, 0.25, 0, 0.75});
  set_mixers(*model, {kCycle, a});
  const auto use = measure_use(*model, batches);
  ASSERT_TRUE(use.has_value());
  const auto with = [&](const std::vector<Tensor>& mixers) {
    set_mixers(*model, mixers);
    return loss_of(*model, x, y).item<double>();
  };
  EXPECT_NEAR(use->as_it_is, with({kCycle, a}), 1e-12);
  EXPECT_NEAR(use->mean, use->as_it_is, 1e-12) << "the mixers do not depend on the token";
  EXPECT_NEAR(use->identity, with({kIdentity}), 1e-12);
  EXPECT_NEAR(use->uniform, with({kUniform}), 1e-12);
  EXPECT_GT(std::abs(use->identity - use->as_it_is), 1e-6);
  EXPECT_FALSE(measure_use(*model_with("jpmhc", nullptr, 2), batches).has_value());
}

TEST(InertMixers, FirstAndLastOfDoublyStochasticOnesGetNoGradient) {
  for (const auto* name : {"mhc_lite", "shc", "hc"}) {
    const auto model = model_with(name, nullptr);
    {
      const torch::NoGradGuard no_grad;
      torch::manual_seed(11);
      for (const auto& item : model->named_parameters())
        if (item.key().find("residual.") != std::string::npos)
          item.value().add_(0.3 * torch::randn_like(item.value()));
    }
    const auto inert = measure_inert(*model, ids());
    ASSERT_TRUE(inert.has_value()) << name;
    if (std::string(name) == "hc") {
      EXPECT_GT(inert->first, 1e-3);
      EXPECT_GT(inert->last, 1e-3);
    } else {
      EXPECT_LT(inert->first, 1e-10) << name;
      EXPECT_LT(inert->last, 1e-10) << name;
    }
  }
}

// As in a run: float32, with mixers so near the identity that float32 cannot resolve the difference.
TEST(InertMixers, AreFoundInFloat32AndNearTheIdentity) {
  for (const auto* name : {"mhc", "mhc_lite", "shc"}) {
    const auto model = model_with(name, nullptr);
    model->to(torch::kFloat32);
    std::vector<Tensor> before;
    for (const auto& parameter : model->parameters()) before.push_back(parameter.clone());
    const auto inert = measure_inert(*model, ids());
    ASSERT_TRUE(inert.has_value()) << name;
    EXPECT_LT(inert->first, 1e-6) << name;
    EXPECT_LT(inert->last, 1e-6) << name;
    ASSERT_TRUE(inert->first_pre.has_value()) << name;
    EXPECT_LT(*inert->first_pre, 0.1) << name;
    const auto after = model->parameters();
    for (size_t i = 0; i < after.size(); ++i) EXPECT_TRUE(torch::equal(before[i], after[i]));
    const auto found = inspect(*model, ids()).warnings;
    const auto warned = [&](const std::string& words) {
      return std::ranges::any_of(
          found, [&](const auto& text) { return text.find(words) != std::string::npos; });
    };
    EXPECT_TRUE(warned("the mixers of the first and the last connection get hardly any gradient"))
        << name;
    EXPECT_TRUE(warned("H_pre of the first connection gets hardly any gradient")) << name;
  }
}

TEST(RankReport, StatesAndTheInputOfTheEnd) {
  const auto model = model_with("hc", nullptr);
  const auto report = describe_ranks(*model, ids());
  ASSERT_TRUE(report.has_value());
  ASSERT_EQ(report->plain.size(), 3u);
  // Equal streams: n·C values have the rank of C values, out of as many tokens.
  EXPECT_NEAR(report->plain[0], report->collapsed[0], 1e-9);
  EXPECT_NEAR(report->ratio(), report->plain[2] / report->plain[0], 1e-12);
  const RankReport halving{.plain = {1, 0.5, 0.25}, .centred = {}, .collapsed = {}};
  EXPECT_NEAR(halving.slope(), std::log(0.5), 1e-12);
}

// Tokens (1, ±1, 0, ...) in equal numbers have two equal singular values; around their mean, one.
TEST(RankReport, CentredIsWithoutTheMeanOfTheTokens) {
  const auto model = model_with("additive", nullptr);
  const torch::NoGradGuard no_grad;
  for (const auto& item : model->named_parameters()) {
    if (item.key().find("position") != std::string::npos) item.value().zero_();
    if (item.key().find("embedding") == std::string::npos) continue;
    item.value().zero_();
    item.value().select(1, 0).fill_(1);
    item.value().select(1, 1).copy_(1 - 2 * (torch::arange(11) % 2));
  }
  const auto report = describe_ranks(*model, torch::arange(6).expand({2, 6}));
  EXPECT_NEAR(report->plain[0], 2.0 / 6, 1e-6);
  EXPECT_NEAR(report->centred[0], 1.0 / 6, 1e-6);
}

TEST(BetaReports, OneForEachConnectionThatHasABeta) {
  const auto mgt = describe_betas(*model_with("mgt", nullptr), ids());
  ASSERT_EQ(mgt.size(), 4u);
  for (const auto& report : mgt) {
    EXPECT_NEAR(report.mean, std::tanh(2.0), 0.05);
    EXPECT_EQ(report.negative, 0);
  }
  EXPECT_TRUE(describe_betas(*model_with("additive", nullptr), ids()).empty());
}

TEST(DiagnosticsLog, IsOfAllSequencesUpToItsBound) {
  const auto model = model_with("mhc", nullptr);
  torch::manual_seed(5);
  const auto x = torch::randint(11, {kDiagnosedSequences + 2, 6}, torch::kInt64);
  const auto line = diagnostics_line(0, *model, x);
  EXPECT_EQ(line["relative_rank"],
            describe_ranks(*model, x.slice(0, 0, kDiagnosedSequences))->to_json());
  EXPECT_EQ(line["relative_rank"]["windows"], kDiagnosedSequences);
  EXPECT_NE(line["relative_rank"]["plain"], describe_ranks(*model, x)->to_json()["plain"]);
  EXPECT_EQ(line["mixers"]["matrices"], kDiagnosedSequences * 6);
}

TEST(DiagnosticsLog, KeepsOneLineForEachStepAlsoAfterAResume) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "diagnostics.jsonl";
  const auto model = model_with("mhc", nullptr);
  const auto steps = [&] {
    std::vector<int64_t> all;
    std::istringstream text(read_text_file(path));
    for (std::string line; std::getline(text, line);) {
      const auto object = nlohmann::json::parse(line);
      EXPECT_TRUE(object.contains("mixers"));
      EXPECT_FALSE(object.contains("beta"));
      all.push_back(object["step"]);
    }
    return all;
  };
  DiagnosticsLog log(ids(), {}, 20, 50);
  for (const int64_t step : {0, 10, 20, 30, 40, 50}) log.measure(step, *model, folder.path());
  EXPECT_EQ(steps(), (std::vector<int64_t>{0, 20, 40, 50}));
  DiagnosticsLog resumed(ids(), {}, 20, 50);
  resumed.measure(40, *model, folder.path());
  EXPECT_EQ(steps(), (std::vector<int64_t>{0, 20, 40}));
}

}  // namespace
}  // namespace geores
