#include "geores/model/transformer/transformer.h"

#include <gtest/gtest.h>

#include "geores/base/error.h"
#include "geores/model/registry.h"
#include "geores/model/transformer/cached_decoder.h"
#include "geores/ops/run/execution.h"
#include "geores/ops/run/precision.h"
#include "geores/storage/state_file.h"
#include "geores/testing/testing.h"

namespace geores {
namespace {

TransformerConfig small(const std::string& connection, const std::string& input = "continuous") {
  return {.connection = connection,
          .input = input,
          .layers = 2,
          .width = 24,
          .heads = 4,
          .streams = 4,
          .context = 9,
          .input_width = 5,
          .vocabulary = 11,
          .allow_noncausal = true};
}

std::string refusal_of(const TransformerConfig& config) {
  return refusal([&] { Transformer model(config); });
}

TEST(Transformer, WrapsEveryConnectionWithVectorsAndWithTokens) {
  for (const auto& connection : connections()) {
    Trace trace;
    Transformer continuous(small(connection.name));
    const auto vectors = continuous.forward(torch::randn({2, 7, 5}), trace);
    EXPECT_EQ(vectors.sizes(), (std::vector<int64_t>{2, 7, 5})) << connection.name;

    Transformer tokens(small(connection.name, "tokens"));
    const auto logits = tokens.forward(torch::randint(11, {2, 7}, torch::kInt64), trace);
    EXPECT_EQ(logits.sizes(), (std::vector<int64_t>{2, 7, 11})) << connection.name;
    EXPECT_TRUE(torch::isfinite(logits).all().item<bool>()) << connection.name;
    EXPECT_EQ(tokens.residuals().size(), 4u);
  }
}

TEST(Transformer, CausalConnectionsGiveACausalModel) {
  torch::manual_seed(1);
  for (const auto& connection : connections())
    for (const auto& options : connection.variants) {
      auto config = small(connection.name);
      config.options = options;
      Transformer model(config);
      model.to(torch::kFloat64);
      const auto x = torch::randn({1, 8, 5}, torch::kFloat64);
      auto changed = x.clone();
      changed.select(1, 5) += torch::randn({5}, torch::kFloat64);
      Trace trace;
      const auto difference = (model.forward(changed, trace) - model.forward(x, trace)).abs();
      const auto earlier = difference.slice(1, 0, 5).max().item<double>();
      if (model.traits().causal)
        EXPECT_EQ(earlier, 0.0) << connection.name << options;
      else
        EXPECT_GT(earlier, 0.0) << connection.name << options;
      EXPECT_GT(difference.slice(1, 5).max().item<double>(), 0.0);
    }
}

// arXiv:2605.06729, Tables 6 and 12: block size 64, vocabulary 1, tied embedding.
TEST(Transformer, ParameterCountsAreThePublishedOnes) {
  const auto count = [](const std::string& connection, int64_t layers, int64_t width) {
    return parameter_count(Transformer({.connection = connection,
                                        .input = "tokens",
                                        .layers = layers,
                                        .width = width,
                                        .context = 64,
                                        .vocabulary = 1,
                                        .allow_noncausal = true}));
  };
  EXPECT_EQ(count("edelta", 6, 128), 1787688);
  EXPECT_EQ(count("additive", 9, 128), 1780224);
  EXPECT_EQ(count("ddl_pooled", 8, 128), 1783568);
  EXPECT_EQ(count("mhc_split", 9, 128), 1838310);
  EXPECT_EQ(count("jpmhc", 7, 512), 1770912);
  EXPECT_EQ(count("edelta_stream", 6, 512), 1740264);
}

TEST(Transformer, HeadIsTiedToTheEmbedding) {
  Transformer model(small("additive", "tokens"));
  const auto ids = torch::randint(11, {1, 4}, torch::kInt64);
  Trace trace;
  const auto before = model.forward(ids, trace);
  {
    torch::NoGradGuard no_grad;
    model.named_parameters()["embedding"].mul_(2);
  }
  EXPECT_FALSE(torch::allclose(model.forward(ids, trace), before));
  EXPECT_EQ(model.named_parameters().find("head"), nullptr);
}

TEST(Transformer, GateLossIsSummedOverAllOperators) {
  auto config = small("edelta");
  config.options = {{"gate_bias", 0.0}, {"gate_weight", 0.1}};
  Transformer model(config);
  Trace trace;
  model.forward(torch::randn({2, 7, 5}), trace);
  EXPECT_NEAR(trace.loss().item<double>(), 4 * 0.1,
              1e-6);  // γ = ½: 4γ(1 − γ) = 1, 2L = 4 operators
}

// A block's H_pre acts in the connection after it, the last one in the sum after the last block.
TEST(Transformer, ReadWeightsOfDeepSeekV41ActOneConnectionLater) {
  auto config = small("mhc");
  config.options = {{"form", "v41"}};
  torch::manual_seed(2);
  Transformer model(config);
  const auto x = torch::randn({2, 7, 5});
  const auto output = [&] {
    Trace trace;
    return model.forward(x, trace).detach();
  };
  const auto before = output();
  for (auto* residual : model.residuals()) {
    auto pre = residual->named_parameters()["pre.bias"];
    torch::NoGradGuard no_grad;
    pre.add_(0.5);
    EXPECT_GT((output() - before).abs().max().item<double>(), 1e-6);
    pre.sub_(0.5);
  }
  // A first connection by itself reads stream 0.
  Trace trace(/*probing=*/true);
  auto& first = *model.residuals().front();
  const auto state = torch::randn({1, 2, 4, 24});
  auto changed = state.clone();
  changed.select(2, 1).add_(1);
  Tensor read, read_changed;
  first.forward(
      state, [&](const Tensor& h) { return read = h; }, trace);
  first.forward(
      changed, [&](const Tensor& h) { return read_changed = h; }, trace);
  EXPECT_TRUE(torch::equal(read, read_changed));
  EXPECT_THROW(from_state(first.traits(), state), Error);
}

TEST(Transformer, AThousandLayersDoNotOverflowTheStack) {
  auto config = small("additive");
  config.layers = 1000;
  const auto x = torch::randn({1, 3, 5});
  for (const auto what : {Recompute::nothing, Recompute::blocks, Recompute::connections}) {
    Transformer model(config);
    model.set_recompute(what);
    Trace trace;
    const auto y = model.forward(x, trace);
    y.sum().backward();
    EXPECT_TRUE(y.isfinite().all().item<bool>());
  }
}

// Outputs, auxiliary loss and all gradients of a model in one form.
std::vector<Tensor> everything(Transformer& model, const Tensor& x, Form form,
                               const std::string& precision = "fp32") {
  const ExecutionScope scope(form);
  const ExecutionScope products(precision_from(precision));
  model.zero_grad();
  Trace trace;
  const auto out = model.forward(x, trace);
  torch::manual_seed(8);
  auto loss = (out * torch::randn(out.sizes(), out.options())).sum();
  if (trace.loss().defined()) loss = loss + trace.loss();
  loss.backward();
  std::vector<Tensor> all = {out.detach(), loss.detach()};
  for (const auto& parameter : model.parameters())
    all.push_back(parameter.grad().defined() ? parameter.grad().clone()
                                             : torch::zeros_like(parameter));
  return all;
}

double largest_difference(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const auto scale = std::max(1e-2, b[i].abs().max().item<double>());
    largest = std::max(largest, (a[i] - b[i]).abs().max().item<double>() / scale);
  }
  return largest;
}

double difference_of_all(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  double difference = 0, size = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]).square().sum().item<double>();
    size += b[i].square().sum().item<double>();
  }
  return std::sqrt(difference / size);
}

// H_pre and H_post folded into the sublayers, kernels for everything: the same model.
TEST(Transformer, FusedIsComposedForEveryConnection) {
  for (const auto& connection : connections())
    for (const auto& options : connection.variants) {
      torch::manual_seed(6);
      auto config = small(connection.name);
      config.options = options;
      Transformer model(config);
      model.to(torch::kFloat64);
      {
        // Away from the special initial values, where much is zero, and where Sinkhorn converges:
        // the implicit gradient is that of the limit, and the two forms of it differ before
        // convergence.
        torch::NoGradGuard no_grad;
        for (const auto& item : model.named_parameters()) {
          const auto scale = item.key().find("norm") != std::string::npos ||
                             item.key().find("rms_weight") != std::string::npos;
          item.value().normal_(scale ? 1.0 : 0.0, 0.2);
        }
      }
      const auto x = torch::randn({3, 9, 5}, torch::kFloat64);
      const auto fused = everything(model, x, Form::fused);
      const auto composed = everything(model, x, Form::composed);
      EXPECT_LT(largest_difference(fused, composed), 1e-9) << connection.name << options;
    }
}

// Factors of products keep 8 bits of mantissa and have errors of up to 2e-3 each, so the result of
// a model of two blocks has a few times that. Its gradients are compared together: one that is the
// difference of much larger ones may have few correct digits.
TEST(Transformer, Bfloat16ProductsChangeNothingBeyondTheirRounding) {
  for (const auto& connection : connections()) {
    torch::manual_seed(6);
    Transformer model(small(connection.name));
    const auto x = torch::randn({3, 9, 5});
    const auto full = everything(model, x, Form::fused);
    const auto half = everything(model, x, Form::fused, "bf16");
    const auto output = largest_difference({half[0]}, {full[0]});
    EXPECT_LT(output, 2e-2) << connection.name;
    EXPECT_GT(output, 1e-5) << connection.name << ": nothing was rounded";
    EXPECT_LT(difference_of_all(half, full), 5e-2) << connection.name;
    const auto again = everything(model, x, Form::fused);
    for (size_t i = 0; i < full.size(); ++i)
      EXPECT_TRUE(torch::equal(again[i], full[i])) << connection.name << ": and it ends";
  }
}

// Zhu et al. 2024: before training, a model with hyper-connections is the pre-norm GPT.
TEST(Transformer, WithHyperConnectionsStartsAsGpt) {
  torch::manual_seed(8);
  Transformer gpt(small("additive")), hyper(small("hc"));
  gpt.to(torch::kFloat64), hyper.to(torch::kFloat64);
  {
    torch::NoGradGuard no_grad;
    gpt.named_parameters()["input.weight"].mul_(100);  // far above the epsilon of the norms
    auto own = hyper.named_parameters();
    for (const auto& item : gpt.named_parameters()) own[item.key()].copy_(item.value());
  }
  const auto x = torch::randn({2, 9, 5}, torch::kFloat64);
  Trace trace;
  EXPECT_LT(largest_difference({hyper.forward(x, trace)}, {gpt.forward(x, trace)}), 1e-5);
  auto config = small("hc");
  config.options = {{"form", "sigmoid"}};
  Transformer other(config);
  EXPECT_NE(other.named_parameters().size(), hyper.named_parameters().size());
}

TEST(Transformer, ALearnedHeadWeighsTheStreams) {
  torch::manual_seed(9);
  auto config = small("mhc");
  Transformer summed(config);
  config.options = {{"head", "learned"}};
  Transformer weighed(config);
  EXPECT_EQ(parameter_count(weighed) - parameter_count(summed),
            config.streams * config.streams * config.width + config.streams + 1);
  {
    torch::NoGradGuard no_grad;
    summed.named_parameters()["input.weight"].mul_(100);
    auto own = weighed.named_parameters();
    for (const auto& item : summed.named_parameters()) own[item.key()].copy_(item.value());
  }
  const auto x = torch::randn({2, 9, 5});
  Trace trace;
  const auto sum = summed.forward(x, trace), half = weighed.forward(x, trace);
  EXPECT_LT(largest_difference({half}, {sum}), 1e-4)
      << "half of the sum, and the norm divides it out";
  {
    torch::NoGradGuard no_grad;
    weighed.named_parameters()["head.weights.bias"].copy_(
        torch::arange(config.streams, torch::kFloat32));
  }
  // Equal weights leave only rounding differences; other weights do not.
  EXPECT_GT(largest_difference({weighed.forward(x, trace)}, {sum}),
            5 * largest_difference({half}, {sum}));
}

TEST(Transformer, ThreadsChangeNothingBeyondRounding) {
  const auto before = torch::get_num_threads();
  for (const auto* name : {"additive", "edelta", "mhc", "jpmhc"}) {
    torch::manual_seed(6);
    Transformer model(small(name));
    const auto x = torch::randn({64, 9, 5});
    for (const auto* precision : {"fp32", "bf16"}) {
      const auto run = [&](int threads) {
        torch::set_num_threads(threads);
        return everything(model, x, Form::fused, precision);
      };
      const auto one = run(1), two = run(2), again = run(2);
      EXPECT_LT(largest_difference(two, one), 1e-4) << name << " " << precision;
      for (size_t i = 0; i < two.size(); ++i)
        EXPECT_TRUE(torch::equal(two[i], again[i])) << name << " " << precision;
    }
  }
  torch::set_num_threads(before);
}

TEST(CachedDecoder, GivesWhatTheWholeSequenceGives) {
  for (const auto& connection : connections())
    for (const auto& options : connection.variants)
      for (const auto* input : {"continuous", "tokens"}) {
        torch::manual_seed(5);
        auto config = small(connection.name, input);
        config.options = options;
        Transformer model(config);
        model.to(torch::kFloat64);
        if (!model.traits().causal) {
          EXPECT_THROW(CachedDecoder{model}, Error);
          continue;
        }
        const auto x = std::string(input) == "tokens" ? torch::randint(11, {2, 9}, torch::kInt64)
                                                      : torch::randn({2, 9, 5}, torch::kFloat64);
        Trace trace;
        const auto whole = model.forward(x, trace);
        CachedDecoder decoder(model, 2);
        for (int64_t t = 0; t < 9; ++t)
          EXPECT_LT((decoder.step(x.select(1, t)) - whole.select(1, t)).abs().max().item<double>(),
                    1e-12)
              << connection.name << options << " at " << t;
        EXPECT_THROW(decoder.step(x.select(1, 0)), Error);  // beyond the context
      }
}

TEST(Transformer, StateSurvivesTheFile) {
  Transformer saved(small("jpmhc")), loaded(small("jpmhc"));
  SafetensorsWriter writer;
  add_state(writer, saved);
  load_state(loaded, Safetensors::parse(writer.serialize(), "memory"), "memory");
  const auto x = torch::randn({2, 9, 5});
  Trace trace;
  EXPECT_TRUE(torch::equal(saved.forward(x, trace), loaded.forward(x, trace)));
}

TEST(Transformer, RefusesWithTheThingAndTheValue) {
  EXPECT_EQ(refusal_of({.connection = "edleta"}),
            "[model] unknown connection 'edleta', did you mean 'edelta'?");
  EXPECT_EQ(refusal_of({.connection = "edelta", .width = 130}),
            "[edelta] width 130 is not divisible by 4 streams");
  EXPECT_EQ(refusal_of({.layers = 0}), "[transformer] layers must be >= 1, got 0");
  EXPECT_EQ(refusal_of({.connection = "edelta", .input = "tokens"}),
            "[transformer] edelta with these options lets a token see later ones; take --pool "
            "causal where it pools, and --attention causal");
  Transformer model(small("additive"));
  Trace trace;
  EXPECT_THROW(model.forward(torch::randn({2, 10, 5}), trace), Error);  // longer than the context
  EXPECT_THROW(model.forward(torch::randn({2, 9, 6}), trace), Error);   // wrong width
  EXPECT_THROW(model.forward(torch::randn({2, 9}), trace), Error);
}

// Every sublayer option, with a connection that folds its maps into them and one on streams.
TEST(Transformer, SublayersAreChosenAndDecodedLikeTheOthers) {
  for (const auto* connection : {"edelta", "mhc"})
    for (const auto* positions : {"learned", "rotary"})
      for (const auto* mlp : {"gelu", "swiglu"})
        for (const auto* input : {"continuous", "tokens"}) {
          torch::manual_seed(5);
          auto config = small(connection, input);
          config.sublayers = {.positions = positions, .mlp = mlp};
          if (std::string(connection) == "edelta") config.options = {{"pool", "causal"}};
          Transformer model(config);
          model.to(torch::kFloat64);
          const auto named = model.named_parameters();
          EXPECT_EQ(named.contains("positions"), std::string(positions) == "learned");
          EXPECT_EQ(named.contains("blocks.0.mlp.gate_up.weight"), std::string(mlp) == "swiglu");
          const auto x = std::string(input) == "tokens" ? torch::randint(11, {2, 9}, torch::kInt64)
                                                        : torch::randn({2, 9, 5}, torch::kFloat64);
          const auto fused = everything(model, x, Form::fused);
          const auto composed = everything(model, x, Form::composed);
          EXPECT_LT(largest_difference(fused, composed), 1e-9) << connection << positions << mlp;
          Trace trace;
          const auto whole = model.forward(x, trace);
          const auto decoder = model.decoder(2);
          for (int64_t t = 0; t < 9; ++t)
            EXPECT_LT(
                (decoder->step(x.select(1, t)) - whole.select(1, t)).abs().max().item<double>(),
                1e-12)
                << connection << positions << mlp << " at " << t;
        }
}

TEST(Transformer, FullAttentionIsRefusedForTokensAndCannotBeDecoded) {
  auto config = small("additive", "tokens");
  config.sublayers.attention = "full";
  EXPECT_NO_THROW(Transformer{config});
  config.allow_noncausal = false;
  EXPECT_NE(refusal_of(config).find("lets a token see later ones"), std::string::npos);
  config.input = "continuous";
  Transformer model(config);
  EXPECT_FALSE(model.causal());
  EXPECT_THROW(model.decoder(1), Error);
}

// A number of heads that does not divide the width is refused. A sublayer on one stream has as many
// heads as fit, and the model reports the number.
TEST(Transformer, UsesTheHeadsThatItWasAskedFor) {
  auto config = small("additive");
  config.heads = 5;
  EXPECT_EQ(refusal_of(config), "[transformer] width 24 is not divisible by 5 heads");
  config.heads = 6;
  EXPECT_EQ(Transformer(config).description()["heads"], 6);
  config = small("edelta_stream");
  config.width = 20;
  EXPECT_EQ(Transformer(config).traits().sublayer_width, 5);
  EXPECT_EQ(Transformer(config).description()["heads"], 1);
}

TEST(Objective, SumIsMeanTimesTheTermsThatCount) {
  const auto model = std::make_shared<Transformer>(small("edelta"));
  const auto x = torch::randn({2, 7, 5}), y = torch::randn({2, 7, 5});
  Carry none;
  const auto error = model->objective({x, y}, none);
  EXPECT_EQ(error.terms().item<int64_t>(), 70);
  Trace trace;
  EXPECT_NEAR(error.sum().item<double>(),
              (model->forward(x, trace) - y).square().sum().item<double>(), 1e-3);
  EXPECT_TRUE(torch::equal(error.total(), error.mean() + trace.loss()));

  Transformer tokens(small("additive", "tokens"));
  const auto ids = torch::randint(11, {2, 7}, torch::kInt64);
  auto targets = ids.clone();
  targets.slice(1, 0, 3).fill_(-1);
  const auto entropy = tokens.objective({ids, targets}, none);
  EXPECT_EQ(entropy.terms().item<int64_t>(), 8);
  EXPECT_FALSE(entropy.auxiliary().defined());
  EXPECT_TRUE(torch::equal(entropy.mean(), entropy.total()));
}

TEST(ModelKinds, MakeTheModelOfTheirOptions) {
  const ModelConfig config{
      .options = {{"connection", "jpmhc"}, {"width", 32}, {"mixer", "sinkhorn"}}};
  const auto model = make_model(config, {.length = 9, .width = 5});
  const auto& built = dynamic_cast<const Transformer&>(*model).config();
  EXPECT_EQ(built.connection, "jpmhc");
  EXPECT_EQ(built.width, 32);
  EXPECT_EQ(built.layers, 6);
  EXPECT_EQ(built.context, 10);
  EXPECT_EQ(built.input_width, 5);
  EXPECT_EQ(built.options["mixer"], "sinkhorn");
  EXPECT_EQ(model->input().length, 10);
  EXPECT_EQ(config.label(), "jpmhc");
  const auto refused = [](const nlohmann::json& options) {
    return refusal([&] { make_model({.options = options}, {.length = 9, .width = 5}); });
  };
  EXPECT_EQ(refused({{"connection", "additive"}, {"mixer", "sinkhorn"}}),
            "[transformer] unknown option 'mixer'");
  EXPECT_EQ(refused({{"mlp", "relu"}}),
            "[transformer] 'mlp' must be one of gelu, swiglu; got 'relu', did you mean 'gelu'?");
  EXPECT_EQ(refused({{"wdith", 8}}), "[transformer] unknown option 'wdith', did you mean 'width'?");
}

TEST(Attention, HeadsAreLoweredUntilTheyDivide) {
  EXPECT_EQ(heads_that_fit(128, 4), 4);
  EXPECT_EQ(heads_that_fit(4, 4), 4);
  EXPECT_EQ(heads_that_fit(3, 4), 3);
  EXPECT_EQ(heads_that_fit(9, 4), 3);
  EXPECT_EQ(heads_that_fit(7, 4), 1);
}

}  // namespace
}  // namespace geores
