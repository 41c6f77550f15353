#include "geores/model/sublayers/sublayers.h"

#include <gtest/gtest.h>

#include <cmath>

#include "geores/ops/attention/rotary.h"
#include "geores/ops/dense/linear.h"
#include "geores/ops/run/execution.h"
#include "geores/testing/gradient_check.h"
#include "geores/testing/testing.h"

namespace geores {
namespace {

constexpr int64_t kModelWidth = 12, kHeads = 3, kTokens = 5;

// Every choice of the factory.
std::vector<SublayerOptions> all_options() {
  std::vector<SublayerOptions> all;
  for (const auto* attention : {"causal", "full"})
    for (const auto* positions : {"learned", "rotary"})
      for (const auto* mlp : {"gelu", "swiglu"}) all.push_back({attention, positions, mlp});
  return all;
}

std::string text(const SublayerOptions& options) {
  return options.attention + " " + options.positions + " " + options.mlp;
}

// Weights of order 1, so that attention is not close to a uniform mean.
template <class Module>
std::shared_ptr<Module> randomized(std::shared_ptr<Module> module) {
  module->to(torch::kFloat64);
  const torch::NoGradGuard no_grad;
  for (auto& parameter : module->parameters()) parameter.normal_(0, 0.5);
  return module;
}

template <class Module>
std::vector<std::pair<std::string, Tensor>> leaves(Module& module, const Tensor& x) {
  std::vector<std::pair<std::string, Tensor>> all = {{"x", x}};
  for (const auto& item : module.named_parameters()) all.emplace_back(item.key(), item.value());
  return all;
}

Tensor vectors(int64_t length = kTokens) {
  return torch::randn({2, length, kModelWidth}, torch::kFloat64).requires_grad_(true);
}

TEST(Sublayers, GradientsAreThoseOfCentralDifferences) {
  torch::manual_seed(1);
  for (const auto& options : all_options()) {
    const auto x = vectors();
    const auto attention = randomized(make_attention(options, kModelWidth, kHeads, 0.1));
    const auto of_attention =
        check_gradients([&] { return attention->forward(x); }, leaves(*attention, x));
    EXPECT_LT(of_attention.error, 1e-7) << text(options) << " " << of_attention.worst;
    const auto mlp = randomized(make_mlp(options, kModelWidth, 0.1));
    const auto of_mlp = check_gradients([&] { return mlp->forward(x); }, leaves(*mlp, x));
    EXPECT_LT(of_mlp.error, 1e-7) << text(options) << " " << of_mlp.worst;
  }
}

TEST(Sublayers, TakeAConnectionsMapsIntoTheirWeights) {
  torch::manual_seed(2);
  const auto pre = torch::randn({kModelWidth, kModelWidth}, torch::kFloat64),
             post = torch::randn({kModelWidth, kModelWidth}, torch::kFloat64);
  for (const auto& options : all_options()) {
    const auto x = vectors().detach();
    const auto attention = randomized(make_attention(options, kModelWidth, kHeads, 0.1));
    const auto mlp = randomized(make_mlp(options, kModelWidth, 0.1));
    const auto apart = [&](auto& module) {
      return module.forward(x.matmul(pre.t())).matmul(post.t());
    };
    EXPECT_LT((attention->between(pre, x, post) - apart(*attention)).abs().max().item<double>(),
              1e-10)
        << text(options);
    EXPECT_LT((mlp->between(pre, x, post) - apart(*mlp)).abs().max().item<double>(), 1e-10)
        << text(options);
  }
}

TEST(Attention, SeesTheFutureExactlyWhenItIsFull) {
  torch::manual_seed(3);
  for (const auto& options : all_options()) {
    const auto attention = randomized(make_attention(options, kModelWidth, kHeads, 0.1));
    const auto x = vectors().detach();
    const auto before = attention->forward(x);
    for (int64_t t = 0; t < kTokens; ++t) {
      auto changed = x.clone();
      changed.select(1, t) += torch::randn_like(changed.select(1, t));
      const auto difference = (attention->forward(changed) - before).abs();
      EXPECT_GT(difference.slice(1, t).max().item<double>(), 1e-6) << text(options);
      if (t == 0) continue;
      const auto earlier = difference.slice(1, 0, t).max().item<double>();
      if (options.causal())
        EXPECT_EQ(earlier, 0.0) << text(options) << " position " << t;
      else
        EXPECT_GT(earlier, 1e-6) << text(options) << " position " << t;
    }
  }
}

// softmax(q kᵀ/√d) v written out, head by head.
TEST(Attention, FullIsItsDefinition) {
  torch::manual_seed(4);
  const auto attention =
      randomized(make_attention({.attention = "full"}, kModelWidth, kHeads, 0.1));
  const auto x = vectors().detach();
  const auto parameters = attention->named_parameters();
  const auto parts = x.matmul(parameters["qkv.weight"].t()).chunk(3, -1);
  constexpr auto head = kModelWidth / kHeads;
  std::vector<Tensor> heads;
  for (int64_t h = 0; h < kHeads; ++h) {
    const auto at = [&](const Tensor& all) { return all.slice(-1, h * head, (h + 1) * head); };
    const auto scores = at(parts[0]).bmm(at(parts[1]).transpose(1, 2)) / std::sqrt(double(head));
    heads.push_back(torch::softmax(scores, -1).bmm(at(parts[2])));
  }
  const auto wanted = torch::cat(heads, -1).matmul(parameters["out.weight"].t());
  EXPECT_LT((attention->forward(x) - wanted).abs().max().item<double>(), 1e-12);
}

// dropped(softmax(q kᵀ/√d + mask)) v between the projections, by LibTorch's operations.
Tensor with_dropout_by_definition(Attention& attention, const SublayerOptions& options,
                                  const Tensor& x, const Dropout& dropout, int64_t site) {
  const auto parameters = attention.named_parameters();
  auto parts = linear_map(x, parameters["qkv.weight"])
                   .unflatten(-1, std::vector<int64_t>{3, kHeads, -1})
                   .permute({2, 0, 3, 1, 4})
                   .unbind(0);
  if (options.positions == "rotary")
    for (const auto i : {0, 1}) parts[i] = rotate_by_position(parts[i], 0);
  auto scores = parts[0].matmul(parts[1].transpose(-2, -1)) *
                (1 / std::sqrt(static_cast<double>(parts[0].size(-1))));
  if (options.causal())
    scores = scores.masked_fill(
        torch::ones({x.size(1), x.size(1)}, x.options().dtype(torch::kBool)).triu(1), -INFINITY);
  const auto weights = dropped(torch::softmax(scores, -1), dropout, site);
  return linear_map(weights.matmul(parts[2]).transpose(1, 2).flatten(2), parameters["out.weight"]);
}

Dropout some_dropped(int64_t step, int64_t first_row) {
  return {.rate = 0.4,
          .seed = 7,
          .step = torch::full({1}, step, torch::kInt64),
          .first_row = first_row};
}

TEST(Attention, WithDropoutIsItsDefinitionBitForBitOnACpu) {
  torch::manual_seed(8);
  for (const auto& options : all_options())
    for (const auto type : {torch::kFloat64, torch::kFloat32})
      for (const auto precision : {Precision::fp32, Precision::bf16}) {
        const ExecutionScope scope(precision);
        const auto attention = randomized(make_attention(options, kModelWidth, kHeads, 0.1));
        attention->to(type);
        const auto x = vectors(7).detach().to(type).requires_grad_(true);
        const auto dropout = some_dropped(5, 2);
        const auto both = [&](const Tensor& y) {
          return std::pair(y.detach(), torch::autograd::grad({(y * y).sum()}, {x})[0]);
        };
        const auto [is, gradient] = both(attention->forward(x, dropout, 4));
        const auto [wanted, gradient_wanted] =
            both(with_dropout_by_definition(*attention, options, x, dropout, 4));
        EXPECT_TRUE(torch::equal(is, wanted)) << text(options);
        EXPECT_TRUE(torch::equal(gradient, gradient_wanted)) << text(options);
      }
}

// In each precision, against the definition in float64 on a CPU; includes lengths without a kernel.
TEST(Attention, WithDropoutOnAGpuIsItsDefinition) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no GPU";
  torch::manual_seed(9);
  for (const auto& options : all_options())
    for (const int64_t length : {1, 7, 64, 255, 256, 1027})
      for (const auto& [precision, type, tolerance] :
           {std::tuple{Precision::fp32, torch::kFloat64, 1e-10},
            {Precision::fp32, torch::kFloat32, 1e-4},
            {Precision::bf16, torch::kFloat32, 0.05},
            {Precision::bf16, torch::kBFloat16, 0.05}}) {
        const auto attention = randomized(make_attention(options, kModelWidth, kHeads, 0.1));
        const auto run = [&](const torch::Device& device, torch::ScalarType of_x, bool defined) {
          attention->to(device, of_x == torch::kFloat64 ? of_x : torch::kFloat32);
          torch::manual_seed(10);
          const auto x = vectors(length).detach().to(device, of_x).requires_grad_(true);
          auto dropout = some_dropped(5, 2);
          dropout.step = dropout.step.to(device);
          const auto y = defined ? with_dropout_by_definition(*attention, options, x, dropout, 4)
                                 : attention->forward(x, dropout, 4);
          const auto gradient = torch::autograd::grad({y.square().sum()}, {x})[0];
          return std::pair(y.detach().to(torch::kCPU, torch::kFloat64),
                           gradient.to(torch::kCPU, torch::kFloat64));
        };
        const auto [wanted, gradient_wanted] = run(torch::kCPU, torch::kFloat64, true);
        const ExecutionScope scope(precision);
        const auto [is, gradient] = run(torch::kCUDA, type, false);
        const auto error = [](const Tensor& a, const Tensor& b) {
          return ((a - b).norm() / b.norm()).item<double>();
        };
        EXPECT_LT(error(is, wanted), tolerance) << text(options) << " " << length << " " << type;
        EXPECT_LT(error(gradient, gradient_wanted), 2 * tolerance)
            << text(options) << " " << length << " " << type;
      }
}

TEST(Rotary, ProductsDependOnTheDistanceAlone) {
  torch::manual_seed(5);
  const auto q = torch::randn({8}, torch::kFloat64), k = torch::randn({8}, torch::kFloat64);
  const auto product = [&](int64_t m, int64_t n) {
    return rotate_by_position(q.unsqueeze(0), m).mul(rotate_by_position(k.unsqueeze(0), n)).sum();
  };
  for (const int64_t distance : {-3, 0, 1, 50})
    for (const int64_t shift : {1, 7, 1000})
      EXPECT_NEAR(product(60 + distance, 60).item<double>(),
                  product(60 + shift + distance, 60 + shift).item<double>(), 1e-10);
  EXPECT_GT(std::abs((product(61, 60) - product(60, 60)).item<double>()), 1e-3);
}

// By hand, d = 4: frequencies 1 and 1/100, planes (0, 2) and (1, 3).
TEST(Rotary, TurnsThePairsOfTheDefinition) {
  const auto x = torch::tensor({{1.0, 2.0, 3.0, 4.0}}, torch::kFloat64);
  const auto turned = rotate_by_position(x, 5)[0];
  const double wanted[] = {
      1 * std::cos(5) - 3 * std::sin(5), 2 * std::cos(0.05) - 4 * std::sin(0.05),
      3 * std::cos(5) + 1 * std::sin(5), 4 * std::cos(0.05) + 2 * std::sin(0.05)};
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(turned[i].item<double>(), wanted[i], 1e-14) << i;
  EXPECT_EQ(refusal([] {
              rotate_by_position(torch::zeros({1, 3}), 0);
            }),
            "[rotary] the width must be even, got 3");
}

// With rotary positions a shift of the whole sequence changes nothing; without positions, full
// attention ignores order.
TEST(Rotary, GivesAttentionItsOrder) {
  torch::manual_seed(6);
  const auto x = vectors().detach();
  const auto order = torch::tensor({3, 1, 4, 0, 2});
  const auto moves = [&](const SublayerOptions& options) {
    const auto attention = randomized(make_attention(options, kModelWidth, kHeads, 0.1));
    return (attention->forward(x.index_select(1, order)) -
            attention->forward(x).index_select(1, order))
        .abs()
        .max()
        .item<double>();
  };
  EXPECT_LT(moves({.attention = "full"}), 1e-12);
  EXPECT_GT(moves({.attention = "full", .positions = "rotary"}), 1e-3);
}

TEST(SwiGlu, IsItsDefinitionAndAboutAsLargeAsGelu) {
  torch::manual_seed(7);
  const auto mlp = randomized(make_mlp({.mlp = "swiglu"}, kModelWidth, 0.1));
  const auto parameters = mlp->named_parameters();
  const auto x = vectors().detach();
  const auto parts = x.matmul(parameters["gate_up.weight"].t()).chunk(2, -1);
  const auto wanted =
      (parts[0] * torch::sigmoid(parts[0]) * parts[1]).matmul(parameters["down.weight"].t());
  EXPECT_LT((mlp->forward(x) - wanted).abs().max().item<double>(), 1e-12);
  EXPECT_EQ(parameters["down.weight"].size(1), 32) << "8 · 12 / 3";
  EXPECT_EQ(make_mlp({.mlp = "swiglu"}, 128, 0.1)->named_parameters()["down.weight"].size(1), 344);
}

TEST(Attention, RefusesHeadsThatDoNotFit) {
  EXPECT_EQ(refusal([] { make_attention({}, 12, 5, 0.1); }),
            "[attention] width 12 is not divisible by 5 heads");
  EXPECT_EQ(refusal([] { make_attention({.positions = "rotary"}, 12, 4, 0.1); }),
            "[attention] rotary positions need heads of an even width, got 3");
}

}  // namespace
}  // namespace geores
