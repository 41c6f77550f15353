// Operators of tokens with wide residual streams against their composed definitions: values and all
// gradients, both floating-point types. Without a GPU the operations of the CPU are tested, and
// fused_hybrid() has no fused form.
#include <gtest/gtest.h>

#include <string>

#include "geores/ops/dense/linear.h"
#include "geores/ops/mixers/hybrid.h"
#include "geores/ops/pooled/generators.h"
#include "geores/ops/run/fused_check_test.h"
#include "geores/ops/run/precision.h"
#include "geores/ops/streams/streams.h"

namespace geores {
namespace {

class WidePooled : public testing::Test {
 protected:
  void SetUp() override { torch::manual_seed(7); }

  // Whether a case of this size is run on this machine.
  static bool counts(int64_t values) { return takes_large_sizes() || values <= 1024; }
};

struct WideSize {
  int64_t streams, d, length;
};

TEST_F(WidePooled, MixingWithItsNormEqualsComposed) {
  for (const auto& [n, d, length] :
       {WideSize{2, 129, 3}, WideSize{4, 130, 5}, WideSize{4, 192, 9}, WideSize{2, 513, 1},
        WideSize{4, 768, 2}, WideSize{4, 1024, 3}})
    for (const bool by_token : {true, false})
      if (counts(n * d))
        expect_fused_equals_composed(
            {random({2, by_token ? length : 1, n, n}), random({2, length, n * d}), random({n * d})},
            [](const Tensors& t) {
              const auto [normalized, skip] = mix_and_norm(t[0], t[1], t[2]);
              return Tensors{normalized, skip};
            },
            "n " + std::to_string(n) + " d " + std::to_string(d), 1e-4);
}

TEST_F(WidePooled, EitherHalfOfMixingAloneHasItsGradients) {
  for (const bool with_norm : {true, false})
    expect_fused_equals_composed(
        {random({2, 3, 2, 2}), random({2, 3, 260}), random({260})},
        [with_norm](const Tensors& t) {
          const auto [normalized, skip] = mix_and_norm(t[0], t[1], t[2]);
          return Tensors{with_norm ? normalized : skip, t[2] * 1};
        },
        with_norm ? "norm alone" : "mixing alone", 1e-4);
}

TEST_F(WidePooled, EntropyEqualsComposed) {
  for (const auto& [n, d, length] :
       {WideSize{2, 129, 3}, WideSize{4, 192, 5}, WideSize{4, 257, 2}, WideSize{4, 1024, 1}})
    if (counts(n * d))
      expect_fused_equals_composed(
          {random({2, length, n, d})},
          [](const Tensors& t) { return Tensors{stream_entropy(t[0])}; },
          "n " + std::to_string(n) + " d " + std::to_string(d), 1e-4);
}

struct HybridCase {
  int64_t streams, d, length, hidden;
  Pool pool;
  bool entropy, branch;
};

// Inputs: x, branch, gate's weight and bias, then four tensors for each of u, v, β, k.
Tensors hybrid_of(const Tensors& t, const HybridCase& c) {
  std::vector<PerceptronWeights> nets;
  for (size_t i = 4; i + 3 < t.size(); i += 4) nets.push_back({t[i], t[i + 1], t[i + 2], t[i + 3]});
  constexpr double kWeight = 0.3;
  const auto state = c.branch ? with_branch(t[0], t[1]) : State(t[0]);
  const HybridGate gate{
      .weight = t[2], .bias = t[3], .entropy = c.entropy, .penalty_weight = kWeight};
  if (const auto fused = fused_hybrid(state, c.pool, c.streams, nets, gate))
    return {fused->g, fused->penalty.sum(), fused->skip * 2, t[1] * 1};
  const auto x = state.total(), summary = pooled(x, c.pool);
  const auto net = [&](size_t i) {
    const auto hidden = torch::gelu(summary.matmul(nets[i].hidden.t()) + nets[i].hidden_bias);
    return hidden.matmul(nets[i].output.t()) + nets[i].output_bias;
  };
  auto logit = summary.matmul(t[2].t()) + t[3];
  if (c.entropy) logit = logit * (1 + pooled(stream_entropy(split_streams(x, c.streams)), c.pool));
  const HybridGenerators p{.u = net(0),
                           .v = net(1),
                           .k = normalize(net(3)),
                           .beta = torch::softplus(net(2)),
                           .gamma = torch::sigmoid(logit)};
  return {hybrid_operator(p), kWeight * (4 * p.gamma * (1 - p.gamma)).mean(), x * 2, t[1] * 1};
}

TEST_F(WidePooled, HybridOperatorsOfTokensEqualComposed) {
  for (const auto& c : {HybridCase{2, 129, 3, 5, Pool::causal, false, false},
                        HybridCase{4, 192, 70, 192, Pool::causal, false, true},
                        HybridCase{4, 192, 67, 9, Pool::causal, true, true},
                        HybridCase{4, 193, 5, 130, Pool::causal, true, false},
                        HybridCase{4, 129, 35, 7, Pool::token, false, true},
                        HybridCase{2, 260, 6, 300, Pool::token, true, true},
                        HybridCase{2, 132, 3, 3, Pool::token, true, false},
                        HybridCase{4, 1024, 3, 512, Pool::causal, true, true}}) {
    const auto width = c.streams * c.d;
    if (!counts(width * c.length / 8)) continue;
    Tensors inputs = {random({2, c.length, width}), random({2, c.length, width}),
                      random({1, width}) / std::sqrt(width), random({1})};
    for (const int64_t outputs : {c.streams, c.streams, int64_t{1}, c.streams})
      inputs.insert(inputs.end(),
                    {random({c.hidden, width}) / std::sqrt(width), random({c.hidden}),
                     random({outputs, c.hidden}) / std::sqrt(c.hidden), random({outputs})});
    expect_fused_equals_composed(
        inputs, [&c](const Tensors& t) { return hybrid_of(t, c); },
        "n " + std::to_string(c.streams) + " d " + std::to_string(c.d) + " hidden " +
            std::to_string(c.hidden),
        3e-4);
  }
}

TEST_F(WidePooled, TheBaseModelsSizesRunFusedOnAGpu) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  const auto like = torch::TensorOptions().device(gpu());
  const auto x = torch::randn({2, 8, 768}, like);
  std::vector<PerceptronWeights> nets;
  for (const int64_t outputs : {4, 4, 1, 4})
    nets.push_back({torch::randn({192, 768}, like), torch::randn({192}, like),
                    torch::randn({outputs, 192}, like), torch::randn({outputs}, like)});
  const HybridGate gate{.weight = torch::randn({1, 768}, like),
                        .bias = torch::randn({1}, like),
                        .entropy = false,
                        .penalty_weight = 0.1};
  const ExecutionScope scope(Precision::bf16);
  const auto hybrid = fused_hybrid(x, Pool::causal, 4, nets, gate);
  ASSERT_TRUE(hybrid);
  const auto [normalized, skip] = mix_and_norm(hybrid->g, hybrid->skip, torch::ones({768}, like));
  EXPECT_EQ(normalized.scalar_type(), torch::kBFloat16);
  EXPECT_EQ(skip.scalar_type(), torch::kFloat32);
}

}  // namespace
}  // namespace geores
