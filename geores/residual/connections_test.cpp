// Properties of single connections beyond the contract: parameter counts, refusals, special cases.
#include <gtest/gtest.h>

#include "geores/base/error.h"
#include "geores/ops/run/precision.h"
#include "geores/ops/streams/streams.h"
#include "geores/residual/hyper_connection.h"
#include "geores/residual/registry.h"

namespace geores {
namespace {

int64_t count_parameters(const std::string& name, const ResidualConfig& config) {
  int64_t count = 0;
  for (const auto& parameter : make_residual(name, config)->parameters())
    count += parameter.numel();
  return count;
}

std::string refusal(const std::string& name, const ResidualConfig& config) {
  try {
    make_residual(name, config);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

Tensor operator_of(Residual& residual, const Tensor& x) {
  Trace trace(/*probing=*/true);
  residual.forward(
      x, [](const Tensor& h) { return h; }, trace);
  for (const auto& [name, tensor] : trace.probes())
    if (name == "operator") return tensor;
  return {};
}

// JPmHC's table of module sizes, n = 4, nd = 2048. The table does not count the LayerNorm before F
// (width d).
TEST(Connections, WhatAModelReadsOfAStateInBfloat16IsFloat32) {
  const auto streams = torch::randn({2, 3, 4, 5}).to(torch::kBFloat16);
  const Traits expand{.layout = StreamLayout::expand, .streams = 4},
      split{.layout = StreamLayout::split, .streams = 4};
  const auto sum = from_state(expand, streams), whole = from_state(split, streams.flatten(2));
  EXPECT_LT((sum - streams.to(torch::kFloat32).sum(-2)).abs().max().item<double>(), 1e-6);
  EXPECT_TRUE(torch::equal(whole, streams.flatten(2).to(torch::kFloat32)));
  for (const auto& state : {sum, whole, from_state(split, State(streams.flatten(2))).x})
    EXPECT_EQ(state.scalar_type(), torch::kFloat32);
  const State full(torch::randn({2, 3, 20}), torch::randn({2, 3, 20}));
  EXPECT_TRUE(from_state(split, full).branch.is_same(full.branch)) << "left to the next reader";
}

TEST(Additive, BranchesAreDividedByAPowerOfTheirDepth) {
  const auto x = torch::randn({2, 3, 8}, torch::kFloat64);
  const auto F = [](const Tensor& h) { return 2 * h; };
  for (const auto* norm : {"pre", "post"}) {
    const auto out = [&](double power) {
      auto residual = make_residual(
          "additive",
          {.width = 8, .index = 3, .options = {{"norm", norm}, {"branch_power", power}}});
      residual->to(torch::kFloat64);
      Trace trace;
      return residual->forward(x, F, trace);
    };
    const auto normalized = torch::layer_norm(x, {8});
    const auto expected = [&](double factor) {
      return std::string(norm) == "pre" ? x + factor * 2 * normalized
                                        : torch::layer_norm(x + factor * 2 * x, {8});
    };
    EXPECT_TRUE(torch::allclose(out(0), expected(1), 1e-12, 1e-12)) << norm;
    EXPECT_TRUE(torch::allclose(out(0.5), expected(0.5), 1e-12, 1e-12)) << norm;
    EXPECT_TRUE(torch::allclose(out(1), expected(0.25), 1e-12, 1e-12)) << norm;
  }
  EXPECT_NE(refusal("additive", {.width = 8, .options = {{"branch_power", -1.0}}}), "no error");
}

TEST(Jpmhc, ModuleSizesAreThePublishedOnes) {
  const auto size = [](nlohmann::json options) {
    return count_parameters("jpmhc", {.width = 2048, .streams = 4, .options = std::move(options)}) -
           512;
  };
  EXPECT_EQ(size({{"mixer", "sinkhorn"}}), 49188);
  EXPECT_EQ(size({{"mixer", "cayley"}, {"bias", false}}), 102400);
  EXPECT_EQ(size({{"mixer", "grassmann"}}), 32796);
  EXPECT_EQ(size({{"mixer", "permutation"}}), 28694);
}

TEST(Refusals, NameTheThingAndTheValue) {
  EXPECT_EQ(refusal("edelta", {.width = 130, .streams = 4}),
            "[edelta] width 130 is not divisible by 4 streams");
  EXPECT_EQ(refusal("jpmhc", {.width = 130, .streams = 4}),
            "[jpmhc] width 130 is not divisible by 4 streams");
  EXPECT_EQ(refusal("mhc_lite", {.width = 128, .streams = 7}),
            "[mhc_lite] streams must be at most 6: 7 streams of width 128 need 4515840 weights per "
            "mixer");
  EXPECT_EQ(refusal("mhc_lite", {.width = 128, .streams = 64}),
            "[mhc_lite] streams must be at most 6, got 64 (n! permutations)");
  EXPECT_EQ(refusal("shc", {.width = 128, .streams = 1}), "[shc] streams must be >= 2, got 1");
  EXPECT_EQ(refusal("edelta", {.width = 0}), "[edelta] width must be >= 1, got 0");
  EXPECT_EQ(refusal("mgt", {.options = {{"rectify", false}, {"delta", false}}}),
            "[mgt] rectify and delta are both off: that is the additive connection");
}

TEST(Refusals, OfferTheNearestName) {
  EXPECT_EQ(refusal("edleta", {}), "[model] unknown connection 'edleta', did you mean 'edelta'?");
  const auto option = refusal("edelta", {.options = {{"gatebias", 1.0}}});
  EXPECT_NE(option.find("gate_bias"), std::string::npos) << option;
  const auto choice = refusal("edelta", {.options = {{"pool", "causl"}}});
  EXPECT_NE(choice.find("causal"), std::string::npos) << choice;
}

TEST(HyperConnections, ReadTheStreamOfTheirIndexFirst) {
  struct {
    const char* name;
    nlohmann::json options;
    float others;
  } const cases[] = {
      {"hc", nullptr, 0.0f}, {"hc", {{"form", "sigmoid"}}, -1.0f}, {"mhc", nullptr, -1.0f}};
  for (const auto& [name, options, others] : cases)
    for (const int64_t index : {0, 3, 6}) {
      const auto residual =
          make_residual(name, {.width = 8, .streams = 4, .index = index, .options = options});
      const auto bias = residual->named_parameters()["pre.bias"];
      EXPECT_EQ(bias.argmax().item<int64_t>(), index % 4);
      EXPECT_EQ(bias.max().item<float>(), 1.0f);
      EXPECT_EQ(bias.min().item<float>(), others);
    }
}

// Zhu et al. 2024: a new hyper-connection is a pre-norm residual connection on every stream.
TEST(Hc, StartsAsAPreNormConnection) {
  torch::manual_seed(5);
  const auto hc = make_residual("hc", {.width = 6, .streams = 3, .index = 1});
  const auto plain = make_residual("additive", {.width = 6});
  const auto x = torch::randn({2, 5, 6});
  const Sublayer f = [](const Tensor& h) { return torch::tanh(2 * h); };
  Trace trace;
  const auto streams = hc->forward(to_state(hc->traits(), x), f, trace);
  const auto wanted = plain->forward(x, f, trace).unsqueeze(2).expand_as(streams);
  EXPECT_LT((streams - wanted).abs().max().item<double>(), 1e-6);
}

// The example of docs/extend/add_a_connection.md: nothing but parameters and a description.
class Blend final : public HyperConnection {
 public:
  Blend(const ResidualConfig& config, const HyperOptions& options)
      : HyperConnection(config, "blend", options, InitialMap::near_identity) {
    add_sigmoid_routes(config.index);
    projection("res", torch::full({1}, -8.0));
  }

 private:
  RoutedSpec spec() const override {
    return spec_with(MixerRouting{[n = streams()](const std::vector<Tensor>& z) {
      const auto share = torch::sigmoid(z[0]).unsqueeze(-1), one = torch::eye(n, z[0].options());
      return (1 - share) * one + share / static_cast<double>(n);
    }});
  }
};

TEST(HyperConnections, ANewOneIsItsDescription) {
  torch::manual_seed(5);
  Blend blend({.width = 6, .streams = 3}, {});
  const torch::NoGradGuard no_gradient;
  for (auto& parameter : blend.parameters()) parameter.normal_(0, 0.5);
  const auto x = torch::randn({2, 4, 3, 6});
  Trace trace(/*probing=*/true);
  const auto out = blend.forward(
      x, [](const Tensor& h) { return torch::tanh(h); }, trace);
  const auto probe = [&](size_t i) { return trace.probes().at(i).second; };
  EXPECT_LT((probe(0).sum(-1) - 1).abs().max().item<double>(), 1e-6);
  const auto read = torch::layer_norm((probe(1).unsqueeze(-1) * x).sum(-2), {6},
                                      blend.named_parameters()["norm.weight"]);
  const auto wanted = probe(0).matmul(x) + probe(2).unsqueeze(-1) * torch::tanh(read).unsqueeze(-2);
  EXPECT_LT((out - wanted).abs().max().item<double>(), 1e-5);
  EXPECT_EQ(blend.token_step(1), nullptr);
  EXPECT_EQ(blend.decay_exceptions().size(), 0u);  // the static part of H_res has rank 1
}

TEST(Hc, StaticRoutesAreOneSetForAllTokens) {
  const nlohmann::json is_static = {{"dynamic", false}};
  const auto hc = make_residual("hc", {.width = 6, .streams = 3, .options = is_static});
  EXPECT_EQ(count_parameters("hc", {.width = 6, .streams = 3, .options = is_static}),
            3 + 9 + 3 + 6);
  const torch::NoGradGuard no_gradient;
  for (auto& parameter : hc->parameters()) parameter.copy_(torch::randn_like(parameter));
  hc->to(torch::kFloat64);
  const auto parameters = hc->named_parameters();
  const auto pre = parameters["pre.bias"], res = parameters["res.bias"],
             post = parameters["post.bias"];
  const auto x = torch::randn({2, 5, 3, 6}, torch::kFloat64);
  Trace trace;
  const auto out = hc->forward(
      x, [](const Tensor& h) { return 2 * h; }, trace);
  const auto read =
      torch::layer_norm((pre.view({3, 1}) * x).sum(-2), {6}, parameters["norm.weight"]);
  const auto wanted = torch::matmul(res, x) + post.view({3, 1}) * (2 * read).unsqueeze(-2);
  EXPECT_LT((out - wanted).abs().max().item<double>(), 1e-12);
  EXPECT_EQ(refusal("hc", {.width = 6, .options = {{"form", "sigmoid"}, {"dynamic", false}}}),
            "[hc] only form original has static routes (dynamic = false)");
}

std::vector<std::string> decay_exceptions(const std::string& name, const nlohmann::json& options) {
  const auto residual = make_residual(name, {.width = 8, .streams = 4, .options = options});
  std::vector<std::string> names;
  for (const auto& tensor : residual->decay_exceptions())
    for (const auto& item : residual->named_parameters())
      if (item.value().is_same(tensor)) names.push_back(item.key());
  return names;
}

TEST(HyperConnections, StaticMapsDoNotDecayUnlessAsked) {
  using Names = std::vector<std::string>;
  const nlohmann::json decay = {{"decay_static", true}};
  EXPECT_EQ(decay_exceptions("hc", nullptr), Names{"res.bias"});
  EXPECT_EQ(decay_exceptions("hc", decay), (Names{"pre.bias", "post.weight"}));
  EXPECT_EQ(decay_exceptions("hc", {{"dynamic", false}}), Names{"res.bias"});
  EXPECT_EQ(decay_exceptions("hc", {{"dynamic", false}, {"decay_static", true}}),
            Names{"pre.bias"});
  EXPECT_EQ(decay_exceptions("mhc", nullptr), Names{"res.bias"});
  EXPECT_EQ(decay_exceptions("mhc", decay), Names{});
  EXPECT_EQ(decay_exceptions("mhc_lite", nullptr), Names{});
  EXPECT_EQ(decay_exceptions("mhc_lite", decay), Names{"res.bias"});
  EXPECT_EQ(decay_exceptions("shc", nullptr), Names{});
  EXPECT_EQ(decay_exceptions("shc", decay), (Names{"left.bias", "right.bias", "singular.bias"}));
}

TEST(Mhc, RowsOfTheMixerAreExactAfterAnyNumberOfIterations) {
  torch::manual_seed(4);
  for (const auto* order : {"rows_last", "columns_last"}) {
    const auto mhc =
        make_residual("mhc", {.width = 5,
                              .streams = 3,
                              .options = {{"sinkhorn_iterations", 2}, {"sinkhorn_order", order}}});
    mhc->to(torch::kFloat64);
    {
      torch::NoGradGuard no_grad;
      mhc->named_parameters()["res.bias"].normal_(0, 3);
    }
    const auto r = operator_of(*mhc, torch::randn({2, 4, 3, 5}, torch::kFloat64));
    const auto rows = (r.sum(-1) - 1).abs().max().item<double>(),
               columns = (r.sum(-2) - 1).abs().max().item<double>();
    const auto rows_last = std::string(order) == "rows_last";
    EXPECT_LT(rows_last ? rows : columns, 1e-14) << order;
    EXPECT_GT(rows_last ? columns : rows, 1e-3) << order;
  }
}

// The norm before the routes: a state of zeros has no direction, and the result no NaN.
TEST(HyperConnections, AStateOfZerosIsFinite) {
  for (const auto* name : {"hc", "mhc", "mhc_lite", "shc"}) {
    const auto residual = make_residual(name, {.width = 8, .streams = 4});
    auto x = torch::zeros({1, 2, 4, 8}).requires_grad_(true);
    Trace trace;
    const auto out = residual->forward(
        x, [](const Tensor& h) { return h; }, trace);
    EXPECT_TRUE(torch::isfinite(out).all().item<bool>()) << name;
    out.sum().backward();
    EXPECT_TRUE(torch::isfinite(x.grad()).all().item<bool>()) << name;
  }
}

// The mixers of these connections satisfy their papers' constraints for any input.
TEST(Mixers, SumToOneOverRowsAndColumns) {
  struct {
    const char* name;
    nlohmann::json options;
  } const cases[] = {{"mhc", {{"sinkhorn_iterations", 500}}},
                     {"mhc_lite", nullptr},
                     {"shc", nullptr},
                     {"mhc_split", {{"sinkhorn_iterations", 500}}},
                     {"jpmhc", {{"mixer", "sinkhorn"}, {"sinkhorn_iterations", 500}}},
                     {"jpmhc", {{"mixer", "permutation"}}},
                     {"jpmhc", {{"mixer", "permutation"}, {"layout", "expand"}}}};
  for (const auto& [name, options] : cases) {
    torch::manual_seed(1);
    const auto residual = make_residual(name, {.width = 12, .streams = 4, .options = options});
    residual->to(torch::kFloat64);
    {
      torch::NoGradGuard no_grad;
      for (auto& parameter : residual->parameters()) parameter.normal_(0.0, 0.5);
    }
    auto x = torch::randn({2, 3, residual->traits().state_width}, torch::kFloat64);
    if (residual->traits().layout == StreamLayout::expand) x = split_streams(x, 4);
    const auto r = operator_of(*residual, x);
    EXPECT_LT((r.sum(-1) - 1).abs().max().item<double>(), 1e-6) << name;
    EXPECT_LT((r.sum(-2) - 1).abs().max().item<double>(), 1e-6) << name;
    const auto norm = torch::linalg_matrix_norm(r, 2).max().item<double>();
    EXPECT_NEAR(norm, 1.0, 1e-6) << name;
  }
}

TEST(Mixers, OfPermutationsSumToOneWithProductsInBfloat16Too) {
  const ExecutionScope scope(Precision::bf16);
  const std::pair<const char*, nlohmann::json> cases[] = {{"mhc_lite", nullptr},
                                                          {"jpmhc", {{"mixer", "permutation"}}}};
  for (const auto& [name, options] : cases) {
    torch::manual_seed(1);
    const auto residual = make_residual(name, {.width = 12, .streams = 4, .options = options});
    {
      torch::NoGradGuard no_grad;
      for (auto& parameter : residual->parameters()) parameter.normal_(0.0, 0.5);
    }
    auto x = torch::randn({2, 3, residual->traits().state_width});
    if (residual->traits().layout == StreamLayout::expand) x = split_streams(x, 4);
    const auto r = operator_of(*residual, x);
    EXPECT_LT((r.sum(-1) - 1).abs().max().item<double>(), 1e-6) << name;
    EXPECT_LT((r.sum(-2) - 1).abs().max().item<double>(), 1e-6) << name;
  }
}

TEST(Shc, KeepsNegativeEntriesThatABistochasticMixerCannotHave) {
  torch::manual_seed(2);
  const auto shc = make_residual("shc", {.width = 6, .streams = 4});
  shc->to(torch::kFloat64);
  {
    torch::NoGradGuard no_grad;
    for (auto& parameter : shc->parameters()) parameter.normal_(0.0, 1.0);
  }
  const auto x = torch::randn({2, 5, 4, 6}, torch::kFloat64);
  EXPECT_LT(operator_of(*shc, x).min().item<double>(), -0.01);
}

TEST(Grassmann, StepStaysOnTheManifoldAndDescends) {
  torch::manual_seed(3);
  const auto residual =
      make_residual("jpmhc", {.width = 16, .streams = 4, .options = {{"mixer", "grassmann"}}});
  residual->to(torch::kFloat64);
  const auto u = residual->manifold_parameters().at(0);
  const auto x = torch::randn({2, 5, 16}, torch::kFloat64);
  const auto target = torch::randn({2, 5, 16}, torch::kFloat64);
  const auto loss = [&] {
    Trace trace;
    const Sublayer silent = [](const Tensor& h) { return torch::zeros_like(h); };
    return torch::mse_loss(residual->forward(x, silent, trace), target);
  };
  const auto first = loss().item<double>();
  for (int step = 0; step < 200; ++step) {
    u.mutable_grad() = Tensor();
    loss().backward();
    residual->manifold_step();
    const auto gram = u.t().matmul(u).detach();
    ASSERT_LT((gram - torch::eye(2, torch::kFloat64)).abs().max().item<double>(), 1e-12);
  }
  EXPECT_LT(loss().item<double>(), first - 1e-3);
}

// The swap of two streams has the singular value 1 twice: a limit.
TEST(Shc, PermutationsAreLimitsThatAreNotReached) {
  const auto shc = make_residual("shc", {.width = 6, .streams = 2});
  shc->to(torch::kFloat64);
  const auto swap = torch::eye(2, torch::kFloat64).flip(0);
  const auto distance = [&](double b) {
    torch::NoGradGuard no_grad;
    shc->named_parameters()["singular.bias"].fill_(b);
    const auto r = operator_of(*shc, torch::randn({1, 1, 2, 6}, torch::kFloat64))[0][0];
    return (r - swap).abs().max().item<double>();
  };
  for (const double b : {-2.0, -4.0, -8.0}) {
    EXPECT_GT(distance(b), 0.9 * std::exp(2 * b)) << b;
    EXPECT_LT(distance(b), 1.1 * std::exp(2 * b)) << b;
  }
}

TEST(Grassmann, MixerIsAProjectorOfHalfTheStreams) {
  torch::manual_seed(4);
  const auto residual =
      make_residual("jpmhc", {.width = 24, .streams = 6, .options = {{"mixer", "grassmann"}}});
  residual->to(torch::kFloat64);
  const auto r = operator_of(*residual, torch::randn({2, 3, 24}, torch::kFloat64));
  EXPECT_LT((r.matmul(r) - r).abs().max().item<double>(), 1e-12);
  EXPECT_LT((r.diagonal(0, -2, -1).sum(-1) - 3).abs().max().item<double>(), 1e-12);
}

TEST(Edelta, NeutralGateStartsAtASingularOperator) {
  torch::manual_seed(5);
  const auto residual =
      make_residual("edelta", {.width = 32, .streams = 4, .options = {{"gate_bias", 0.0}}});
  const auto r = operator_of(*residual, torch::randn({2, 3, 32}));
  EXPECT_LT(torch::linalg_svdvals(r).min().item<double>(), 1e-6);
}

TEST(Edelta, GateLossIsTheOrthogonalityDefect) {
  torch::manual_seed(6);
  const auto residual = make_residual(
      "edelta", {.width = 32, .streams = 4, .options = {{"gate_bias", 0.7}, {"gate_weight", 1.0}}});
  residual->to(torch::kFloat64);
  Trace trace(/*probing=*/true);
  residual->forward(
      torch::randn({1, 3, 32}, torch::kFloat64), [](const Tensor& h) { return h; }, trace);
  Tensor r;
  for (const auto& [name, tensor] : trace.probes())
    if (name == "operator") r = tensor;
  const auto defect =
      torch::linalg_matrix_norm(r.transpose(-1, -2).matmul(r) - torch::eye(4, torch::kFloat64), 2);
  EXPECT_NEAR(defect.item<double>(), trace.loss().item<double>(), 1e-12);
}

// The norm of a model's gradient with 24 consecutive connections, as in twelve blocks, and states
// as small as embeddings of tokens.
double gradient_of_deep_edelta(const nlohmann::json& changes) {
  torch::manual_seed(9);
  nlohmann::json options = {{"pool", "causal"}, {"init", "reference"}, {"gate_weight", 0.0}};
  options.update(changes);
  auto x = 0.02 * torch::randn({2, 32, 64});
  Trace trace;
  std::vector<Tensor> weights;
  for (int i = 0; i < 24; ++i) {
    const auto residual = make_residual("edelta", {.width = 64, .streams = 4, .options = options});
    for (const auto& weight : residual->parameters()) weights.push_back(weight);
    x = residual->forward(
        x, [](const Tensor& h) { return h; }, trace);
  }
  const auto loss = (torch::layer_norm(x, {64}) * torch::randn_like(x)).mean();
  double squares = 0;
  for (const auto& g : torch::autograd::grad({loss}, weights, {}, {}, false, /*allow_unused=*/true))
    if (g.defined()) squares += g.square().sum().item<double>();
  return std::sqrt(squares);
}

TEST(Edelta, AnAnchorKeepsGradientsOfDeepModelsSmall) {
  const auto rotation = gradient_of_deep_edelta({{"operator", "cayley"}});
  for (const auto* kind : {"householder", "hybrid"}) {
    EXPECT_GT(gradient_of_deep_edelta({{"operator", kind}}), 100 * rotation) << kind;
    EXPECT_LT(gradient_of_deep_edelta({{"operator", kind}, {"anchor", 1.0}}), 20 * rotation)
        << kind;
  }
}

TEST(Trace, ProbesCostNothingUnlessAsked) {
  Trace trace;
  trace.probe("never", []() -> Tensor { throw std::logic_error("made without being asked"); });
  EXPECT_TRUE(trace.probes().empty());
  EXPECT_FALSE(trace.loss().defined());
}

// With a silent sublayer the output is linear in γ, so a straight-through gradient of the gate is
// exactly that of the soft gate, while the operator is the rotation or the reflection alone.
TEST(Edelta, AHardGateIsOrthogonalAndPassesTheGradientOfTheSoftOne) {
  torch::manual_seed(8);
  const nlohmann::json options = {{"pool", "causal"}, {"gate_bias", 0.1}};
  auto hard_options = options;
  hard_options["gate_value"] = "hard";
  const auto soft = make_residual("edelta", {.width = 24, .options = options});
  const auto hard = make_residual("edelta", {.width = 24, .options = hard_options});
  EXPECT_FALSE(soft->traits().orthogonal);
  EXPECT_TRUE(hard->traits().orthogonal);
  const auto x = torch::randn({3, 7, 24}, torch::kFloat64), cotangent = torch::randn_like(x);
  {
    const torch::NoGradGuard no_grad;  // a gate that sees the input, so that it opens and closes
    soft->named_parameters()["gate.weight"].normal_();
  }
  std::vector<Tensor> gradients, operators;
  for (const auto& residual : {soft, hard}) {
    residual->to(torch::kFloat64);
    {
      const torch::NoGradGuard no_grad;
      auto from = soft->named_parameters();
      for (const auto& item : residual->named_parameters()) item.value().copy_(from[item.key()]);
    }
    Trace trace;
    const auto out = residual->forward(
        x, [](const Tensor& h) { return torch::zeros_like(h); }, trace);
    gradients.push_back(torch::autograd::grad({(out * cotangent).sum()},
                                              {residual->named_parameters()["gate.weight"]})[0]);
    operators.push_back(operator_of(*residual, x));
  }
  EXPECT_LT((gradients[0] - gradients[1]).abs().max().item<double>(), 1e-12);
  EXPECT_GT(gradients[0].abs().max().item<double>(), 1e-6);
  const auto& g = operators[1];
  EXPECT_LT((g.transpose(-1, -2).matmul(g) - torch::eye(4, g.options())).abs().max().item<double>(),
            1e-12);
  // Both cases occur.
  const auto determinants = torch::linalg_det(g);
  EXPECT_LT(determinants.min().item<double>(), -0.99);
  EXPECT_GT(determinants.max().item<double>(), 0.99);
}

}  // namespace
}  // namespace geores
