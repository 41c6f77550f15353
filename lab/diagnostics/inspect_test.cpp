#include "lab/diagnostics/inspect.h"

#include <gtest/gtest.h>

#include <cmath>

#include "geores/model/transformer/transformer.h"
#include "geores/testing/testing.h"
#include "lab/diagnostics/measures.h"
#include "lab/spectrum/mixer_file.h"

namespace geores {
namespace {

constexpr int64_t kWidth = 12, kInput = 5, kLength = 6;

std::shared_ptr<Transformer> make_model(const std::string& connection,
                                        const nlohmann::json& options = nullptr, int64_t layers = 2,
                                        int64_t streams = 3, int64_t width = kWidth) {
  torch::manual_seed(11);
  auto model = std::make_shared<Transformer>(TransformerConfig{.connection = connection,
                                                               .layers = layers,
                                                               .width = width,
                                                               .heads = 2,
                                                               .streams = streams,
                                                               .context = 32,
                                                               .input_width = kInput,
                                                               .options = options});
  model->to(torch::kFloat64);
  return model;
}

Tensor data(int64_t sequences = 3, int64_t length = kLength) {
  torch::manual_seed(12);
  return torch::randn({sequences, length, kInput});
}

// Sets every parameter whose name ends so; counts them, so that a renamed one is noticed.
template <class Make>
void set(Transformer& model, const std::string& ending, Make&& make) {
  torch::NoGradGuard no_grad;
  int found = 0;
  for (auto& item : model.named_parameters())
    if (item.key().ends_with(ending)) {
      item.value().copy_(make(item.value(), found));
      ++found;
    }
  ASSERT_GT(found, 0) << ending;
}

void silence_sublayers(Transformer& model) {
  const auto zero = [](const Tensor& old, int) { return torch::zeros_like(old); };
  set(model, "attention.out.weight", zero);
  set(model, "mlp.down.weight", zero);
}

bool warns_of(const Inspection& inspection, const std::string& text) {
  for (const auto& warning : inspection.warnings)
    if (warning.find(text) != std::string::npos) return true;
  return false;
}

void expect_constant(const std::optional<Spread>& spread, double value, double tolerance) {
  ASSERT_TRUE(spread.has_value());
  EXPECT_NEAR(spread->least, value, tolerance);
  EXPECT_NEAR(spread->most, value, tolerance);
  EXPECT_NEAR(spread->mean, value, tolerance);
  EXPECT_LE(spread->deviation, tolerance);
}

TEST(InspectAdditive, EveryOperatorTheirProductAndTheSilentPathAreTheIdentity) {
  const auto in = inspect(*make_model("additive"), data());
  ASSERT_EQ(in.operators.size(), 4u);
  for (const auto& o : in.operators) {
    expect_constant(o.sigma_min, 1, 0);
    expect_constant(o.sigma_max, 1, 0);
    expect_constant(o.defect, 0, 0);
    expect_constant(o.composite_norm, 1, 0);
    EXPECT_EQ(o.rotation_error, 0.0);
    EXPECT_FALSE(o.gamma || o.beta || o.angle);
  }
  expect_constant(in.composite->norm, 1, 0);
  EXPECT_FALSE(in.composite->second.has_value());
  ASSERT_EQ(in.residual_path.singular_values.size(), static_cast<size_t>(kWidth));
  EXPECT_NEAR(in.residual_path.sigma_max(), 1, 1e-14);
  EXPECT_NEAR(in.residual_path.sigma_min(), 1, 1e-14);
  EXPECT_GT(in.whole_stack.condition(), 1 + 1e-6) << "the sublayers are not silent here";
  EXPECT_FALSE(in.input_cosine.has_value());
  EXPECT_TRUE(in.warnings.empty());
}

TEST(InspectAdditive, PostNormHasNoLinearPathButAJacobian) {
  const auto in = inspect(*make_model("additive", {{"norm", "post"}}), data());
  EXPECT_FALSE(in.composite.has_value());
  EXPECT_FALSE(in.operators.front().sigma_min.has_value());
  EXPECT_FALSE(in.operators.front().branch_variance.has_value());
  // A LayerNorm forgets mean and length of the state: two singular values are zero.
  EXPECT_LT(in.residual_path.sigma_min(), 1e-3 * in.residual_path.sigma_max());
  EXPECT_NE(in.to_table().find(fmt::format("{:.3g}", in.whole_stack.sigma_max())),
            std::string::npos)
      << in.to_table();
  const TemporaryFolder folder;
  EXPECT_FALSE(save_mixers(in, folder.path()));
}

TEST(InspectEdelta, SigmaMinAndDefectFollowTheGate) {
  const auto in = inspect(*make_model("edelta", {{"gate_bias", 1.5}}), data());
  const auto gamma = 1 / (1 + std::exp(-1.5));
  for (const auto& o : in.operators) {
    expect_constant(o.gamma, gamma, 1e-7);
    expect_constant(o.sigma_min, 2 * gamma - 1, 1e-7);
    expect_constant(o.defect, 4 * gamma * (1 - gamma), 1e-7);
    EXPECT_LE(o.sigma_max->most, 1 + 1e-12);
    EXPECT_GT(o.beta->mean, 0.0);
    EXPECT_GT(o.angle->mean, 0.0);
  }
  EXPECT_TRUE(in.warnings.empty());
}

TEST(InspectEdelta, ANeutralGateIsCalledSingularInPlainWords) {
  const auto in = inspect(*make_model("edelta", {{"gate_bias", 0.0}}), data());
  for (const auto& o : in.operators) expect_constant(o.sigma_min, 0, 1e-7);
  EXPECT_LT(in.composite->sigma_min.most, 1e-7);
  ASSERT_EQ(in.warnings.size(), 1u);
  EXPECT_TRUE(warns_of(in, "all operators: the gate is close to γ = ½")) << in.warnings.front();
  EXPECT_TRUE(warns_of(in, "singular"));
}

TEST(InspectEdelta, OnlyTheOperatorsThatAreSingularAreNamed) {
  const auto model = make_model("edelta");
  set(*model, "gate.bias",
      [](const Tensor& old, int index) { return torch::full_like(old, index == 2 ? 0.0 : 2.0); });
  const auto in = inspect(*model, data());
  EXPECT_TRUE(warns_of(in, "operator 2: the gate")) << in.to_table();
}

TEST(InspectEdelta, PureRotationsAreOrthogonalToRounding) {
  const auto model = make_model("edelta", {{"operator", "cayley"}});
  const auto wide = inspect(*model, data());
  for (const auto& o : wide.operators) EXPECT_LT(*o.rotation_error, 1e-14);
  model->to(torch::kFloat32);
  const auto narrow = inspect(*model, data());
  for (const auto& o : narrow.operators) {
    EXPECT_LT(*o.rotation_error, 2e-6);
    EXPECT_GT(*o.rotation_error, 0.0) << "float32 rounding must show";
  }
}

TEST(InspectStreamMixers, DoublyStochasticProductsHaveUnitSumsAndNormOne) {
  for (const auto& [connection, options, ending] :
       {std::tuple<std::string, nlohmann::json, std::string>{"mhc", nullptr, "residual.res.bias"},
        {"jpmhc", {{"mixer", "permutation"}}, "mixer.res.bias"},
        {"shc", nullptr, "residual.left.bias"}}) {
    const auto model = make_model(connection, options, 3);
    set(*model, ending, [](const Tensor& old, int) { return torch::randn_like(old); });
    const auto in = inspect(*model, data());
    for (const auto& composite : {in.composite, in.composite_of_means}) {
      expect_constant(composite->row_sums, 1, 1e-6);
      expect_constant(composite->column_sums, 1, 1e-6);
      expect_constant(composite->norm, 1, 1e-6);
      EXPECT_LT(composite->second->most, 1 - 1e-4) << connection;
    }
  }
}

TEST(InspectHyperConnections, AnUnconstrainedMixerGrowsAsAPowerOfDepth) {
  const auto model = make_model("hc", nullptr, 3);
  set(*model, "residual.res.bias", [](const Tensor& old, int) { return 1.5 * old; });
  const auto in = inspect(*model, data());
  for (size_t l = 0; l < in.operators.size(); ++l)
    expect_constant(in.operators[l].composite_norm, std::pow(1.5, static_cast<double>(l + 1)),
                    1e-6);
  expect_constant(in.composite->norm, std::pow(1.5, 6), 1e-5);
  EXPECT_NEAR(in.residual_path.sigma_max(), std::pow(1.5, 6), 1e-5);
  EXPECT_TRUE(warns_of(in, "amplifies a state up to 11.4 times"));
}

// Different mixers that do not commute, and no dependence on the data (W = 0 at the start).
std::vector<Tensor> set_mixers(Transformer& model, int64_t n) {
  std::vector<Tensor> mixers;
  torch::manual_seed(13);
  set(model, "residual.res.bias", [&](const Tensor& old, int) {
    mixers.push_back(torch::eye(n, old.options()) + 0.3 * torch::randn({n, n}, old.options()));
    return mixers.back();
  });
  return mixers;
}

TEST(InspectHyperConnections, TheProductIsTakenInOrderOfDepth) {
  const auto model = make_model("hc", nullptr, 2);
  const auto mixers = set_mixers(*model, 3);
  ASSERT_EQ(mixers.size(), 4u);
  const auto product = mixers[3].matmul(mixers[2]).matmul(mixers[1]).matmul(mixers[0]);
  const auto in = inspect(*model, data());
  for (const auto& composite : {in.composite, in.composite_of_means}) {
    const auto sigma = singular_values(product);
    expect_constant(composite->norm, sigma[0].item<double>(), 1e-10);
    expect_constant(composite->second, sigma[1].item<double>(), 1e-10);
    expect_constant(composite->sigma_min, sigma[2].item<double>(), 1e-10);
    EXPECT_NEAR(composite->row_sums->most, product.sum(1).max().item<double>(), 1e-10);
    EXPECT_NEAR(composite->column_sums->most, product.sum(0).max().item<double>(), 1e-10);
  }
  // Each singular value of the product, once per value of a stream.
  const auto sigma = singular_values(product).repeat_interleave(kWidth).contiguous();
  for (int64_t i = 0; i < sigma.size(0); ++i)
    EXPECT_NEAR(in.residual_path.singular_values[i], sigma[i].item<double>(), 1e-10);
}

TEST(InspectHyperConnections, SavedMixersVariancesAndJacobianAreReadBackByTheSpectrumCommand) {
  const auto model = make_model("hc", nullptr, 2);
  const auto mixers = set_mixers(*model, 3);
  const auto in = inspect(*model, data());
  const TemporaryFolder folder;
  ASSERT_TRUE(save_mixers(in, folder.path()));
  const auto run = spectral::load_run_mixers(folder.path());
  ASSERT_EQ(run.mixers.size(), mixers.size());
  for (size_t l = 0; l < mixers.size(); ++l)
    for (int64_t i = 0; i < 3; ++i)
      for (int64_t k = 0; k < 3; ++k)
        EXPECT_NEAR(run.mixers[l](i, k), mixers[l][i][k].item<double>(), 1e-14);
  EXPECT_EQ(run.jacobian, in.whole_stack.singular_values);
  ASSERT_EQ(run.sigma2.size(), mixers.size());
  for (size_t l = 0; l < mixers.size(); ++l)
    EXPECT_EQ(run.sigma2[l], *in.operators[l].branch_variance);
}

TEST(InspectBranch, VarianceIsZeroWhereTheOperatorIsTheWholeJacobian) {
  const auto streams = make_model("hc");  // R on streams, constant
  set_mixers(*streams, 3);
  const auto width = make_model("mgt");  // R on the width: 1 − αβ, constant
  set(*width, "beta.weight", [](const Tensor& old, int) { return torch::zeros_like(old); });
  set(*width, "beta.bias", [](const Tensor& old, int) { return torch::randn_like(old); });
  set(*width, "alpha", [](const Tensor& old, int) { return torch::full_like(old, 0.3); });
  for (const auto& model : {streams, width}) {
    silence_sublayers(*model);
    const auto in = inspect(*model, data());
    for (const auto& o : in.operators) {
      EXPECT_LT(*o.branch_variance, 1e-20);
      EXPECT_GT(o.defect->mean, 1e-2) << "R is not the identity here";
    }
  }
}

TEST(InspectBranch, VarianceIsTheSquaredNormOfTheJacobianBesidesTheOperator) {
  const auto model = make_model("additive", nullptr, 1);
  set(*model, "mlp.down.weight", [](const Tensor& old, int) { return torch::zeros_like(old); });
  set(*model, "attention.out.weight",
      [](const Tensor& old, int) { return torch::randn_like(old); });
  const auto x = data();
  const auto state = model->initial_state(x.slice(0, 0, 1).to(torch::kFloat64)).detach();
  const auto j = jacobian(
      [&](const Tensor& h) {
        Trace trace;
        return model->blocks()[0]->forward(h, trace);
      },
      state, kLength - 1);
  const auto branch = j - torch::eye(kWidth, torch::kFloat64);
  const auto in = inspect(*model, x);
  const auto expected = branch.square().sum().item<double>() / kWidth;
  EXPECT_NEAR(*in.operators[0].branch_variance, expected, 1e-10 * expected);
  EXPECT_NEAR(*in.operators[1].branch_variance, 0.0, 1e-20);
}

TEST(InspectJacobian, OfTheWholeStackEqualsCentralDifferences) {
  for (const auto* connection : {"edelta", "mhc"}) {  // sees the whole sequence; expands
    const auto model = make_model(connection);
    const auto x = data();
    const auto in = inspect(*model, x, {.jacobian_length = 4});
    EXPECT_EQ(in.jacobian_position, 3);

    torch::NoGradGuard no_grad;
    const auto first = x.slice(0, 0, 1).slice(1, 0, 4).to(torch::kFloat64);
    const auto state = model->initial_state(first).contiguous();
    const auto blocks = [&](Tensor h) {
      Trace trace;
      for (const auto& block : model->blocks()) h = block->forward(h, trace);
      return h.flatten(2)[0][3];
    };
    const auto values = model->traits().state_width;
    const double step = 1e-5;
    std::vector<Tensor> columns;
    for (int64_t c = 0; c < values; ++c) {
      auto up = state.clone(), down = state.clone();
      up.flatten(2)[0][3][c] += step;
      down.flatten(2)[0][3][c] -= step;
      columns.push_back((blocks(up) - blocks(down)) / (2 * step));
    }
    const auto sigma = singular_values(torch::stack(columns, 1)).contiguous();
    ASSERT_EQ(in.whole_stack.singular_values.size(), static_cast<size_t>(values));
    for (int64_t i = 0; i < values; ++i)
      EXPECT_NEAR(in.whole_stack.singular_values[i], sigma[i].item<double>(), 1e-7) << connection;
  }
}

TEST(InspectStates, NormRankAndCosineAreThoseOfTheModelsOwnStates) {
  const auto model = make_model("jpmhc", nullptr, 3);
  const auto x = data();
  const auto in = inspect(*model, x);
  torch::NoGradGuard no_grad;
  auto state = model->initial_state(x.to(torch::kFloat64));
  EXPECT_NEAR(in.input_norm, token_rms(state).mean().item<double>(), 1e-12);
  EXPECT_EQ(in.layers.size(), 3u);
  double before = in.input_norm;
  for (size_t i = 0; i < in.layers.size(); ++i) {
    Trace trace;
    state = model->blocks()[i]->forward(state, trace);
    const auto& layer = in.layers[i];
    EXPECT_EQ(layer.norm_in, before);
    EXPECT_NEAR(layer.norm_out, token_rms(state).mean().item<double>(), 1e-12);
    EXPECT_NEAR(layer.effective_rank, effective_rank(state).mean().item<double>(), 1e-12);
    const auto streams = state.reshape({3, kLength, 3, kWidth / 3});
    EXPECT_NEAR(*layer.stream_cosine, stream_cosine(streams).mean().item<double>(), 1e-12);
    before = layer.norm_out;
  }
}

TEST(InspectStates, ExpandedStreamsStartAsCopies) {
  EXPECT_NEAR(*inspect(*make_model("mhc"), data()).input_cosine, 1.0, 1e-12);
}

TEST(InspectProjectors, AreWarnedOf) {
  const auto delta = inspect(*make_model("ddl_pooled"), data());  // β ≈ 1 at the start
  EXPECT_TRUE(warns_of(delta, "close to a projector"));
  EXPECT_TRUE(delta.operators.front().mixer.empty());
  const TemporaryFolder folder;
  EXPECT_FALSE(save_mixers(delta, folder.path()));
  EXPECT_EQ(folder.file_count(), 0);
}

TEST(InspectSample, WideOperatorsAreMeasuredOnFewerTokens) {
  const auto x = data(3, 20);
  const auto narrow = inspect(*make_model("ddl_pooled", nullptr, 1), x);
  EXPECT_EQ(narrow.sequences, 3);
  EXPECT_EQ(narrow.positions, 16);
  const auto wide = inspect(*make_model("ddl_pooled", nullptr, 1, 1, 256), x);
  EXPECT_EQ(wide.sequences, 1);
  EXPECT_EQ(wide.positions, 16);  // 2²⁸ / 256³
}

TEST(InspectSample, LeavesNoGradientBehindAndTakesTokens) {
  torch::manual_seed(3);
  Transformer model({.connection = "mhc",
                     .input = "tokens",
                     .layers = 1,
                     .width = kWidth,
                     .heads = 2,
                     .streams = 3,
                     .context = 8,
                     .vocabulary = 7});
  const auto in = inspect(model, torch::randint(0, 7, {2, 8}, torch::kInt64));
  EXPECT_EQ(in.length, 8);
  for (const auto& parameter : model.parameters()) EXPECT_FALSE(parameter.grad().defined());
}

TEST(InspectRefuses, EmptyDataAndADivergedModelInOneLine) {
  const auto model = make_model("mhc");
  EXPECT_EQ(refusal([&] { inspect(*model, data(0)); }),
            "[inspect] needs at least one sequence of at least one position, got 0 of 6");
  set(*model, "blocks.1.mlp.down.weight",
      [](const Tensor& old, int) { return torch::full_like(old, std::nan("")); });
  EXPECT_EQ(refusal([&] { inspect(*model, data()); }),
            "[inspect] the state after block 1 mlp has NaN or infinite values: the model has "
            "diverged, or its input is not finite");
}

}  // namespace
}  // namespace geores
