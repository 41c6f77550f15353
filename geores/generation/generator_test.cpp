#include "geores/generation/generator.h"

#include "geores/model/transformer/transformer.h"
#include "geores/testing/testing.h"

namespace geores {
namespace {

std::shared_ptr<Transformer> make(const std::string& connection, const nlohmann::json& options,
                                  int64_t context = 8) {
  torch::manual_seed(3);
  const auto model = std::make_shared<Transformer>(TransformerConfig{.connection = connection,
                                                                     .input = "tokens",
                                                                     .layers = 2,
                                                                     .width = 24,
                                                                     .heads = 2,
                                                                     .context = context,
                                                                     .vocabulary = 13,
                                                                     .options = options});
  model->to(torch::kFloat64);
  torch::NoGradGuard no_grad;
  // At the start most routes do not depend on the token, and many matrices equal their transposes.
  for (auto& parameter : model->parameters()) parameter.add_(0.1 * torch::randn_like(parameter));
  // Sharper than at the start: other ids win at other positions.
  model->named_parameters()["embedding"].mul_(5);
  return model;
}

Ids continued(Model& model, const GenerationOptions& options, int64_t tokens, uint64_t sample = 0) {
  Generator generator(model, {1, 2, 3}, options, sample);
  for (int64_t i = 0; i < tokens; ++i) generator.next();
  return generator.ids();
}

// Every connection that does not see the future, with each set of options that changes it.
template <class Check>
void for_every_causal_connection(Check&& check) {
  int64_t tried = 0;
  for (const auto& connection : connections())
    for (const auto& options : connection.variants) {
      const ResidualConfig config{.width = 24, .streams = 4, .options = options};
      if (!make_residual(connection.name, config)->traits().causal) continue;
      check(connection.name, options);
      ++tried;
    }
  EXPECT_GE(tried, 10);
}

TEST(Generator, GreedyWithTheCacheIsGreedyWithoutForEveryCausalConnection) {
  for_every_causal_connection([](const std::string& name, const nlohmann::json& options) {
    const auto model = make(name, options, 12);
    const GenerationOptions cached{.sampling = {.temperature = 0}};
    const GenerationOptions whole{.sampling = {.temperature = 0}, .cache = false};
    EXPECT_EQ(continued(*model, cached, 9), continued(*model, whole, 9)) << name << options;
  });
}

// After the prompt, and after each of several ids that the cache has taken in.
void expect_same_logits(Model& model, double limit, const std::string& name) {
  for (int ids = 0; ids < 6; ++ids) {
    Generator cached(model, {1, 2, 3, 4}, {});
    for (int i = 0; i < ids; ++i) cached.next();
    Generator whole(model, cached.ids(), {.cache = false});
    const auto a = cached.logits(), b = whole.logits();
    for (size_t i = 0; i < a.size(); ++i)
      EXPECT_NEAR(a[i], b[i], limit) << name << " after " << ids;
    EXPECT_EQ(cached.logits(), a) << "asked for twice";
  }
}

TEST(Generator, LogitsWithTheCacheAreThoseWithout) {
  for_every_causal_connection([](const std::string& name, const nlohmann::json& options) {
    const auto model = make(name, options, 12);
    expect_same_logits(*model, 1e-11, name + options.dump());
    // Logits of a few: sharper ones have rounding in proportion.
    torch::NoGradGuard no_grad;
    model->named_parameters()["embedding"].div_(5);
    model->to(torch::kFloat32);
    expect_same_logits(*model, 1e-5, name + options.dump());
  });
}

// Positions end at the context: the last half is then read again, like a window that begins
// there gives.
TEST(Generator, GoesOnBeyondTheContext) {
  const auto model = make("additive", nullptr, 8);
  Generator generator(*model, {1, 2, 3}, {.sampling = {.temperature = 0}});
  for (int i = 0; i < 6; ++i) generator.next();  // eight ids are read, the ninth is not
  EXPECT_EQ(generator.times_reread(), 0);
  const auto ids = generator.ids();
  ASSERT_EQ(ids.size(), 9u);
  const auto logits = generator.logits();
  EXPECT_EQ(generator.times_reread(), 1);
  Generator window(*model, Ids(ids.end() - 4, ids.end()), {.cache = false});
  const auto expected = window.logits();
  for (size_t i = 0; i < logits.size(); ++i) EXPECT_NEAR(logits[i], expected[i], 1e-12);
  EXPECT_EQ(continued(*model, {.sampling = {.temperature = 0}}, 40).size(), 43u);
  Generator far(*model, {1, 2, 3}, {});
  for (int i = 0; i < 40; ++i) far.next();
  EXPECT_EQ(far.times_reread(), (43 - 1 - 8 + 4) / 5) << "once for every half context";
}

TEST(Generator, SeedsRepeatAndSamplesAreTheirOwn) {
  const auto model = make("additive", nullptr, 8);
  const GenerationOptions options{.sampling = {.temperature = 2, .seed = 5}};
  EXPECT_EQ(continued(*model, options, 20), continued(*model, options, 20));
  EXPECT_NE(continued(*model, options, 20, 0), continued(*model, options, 20, 1));
  EXPECT_NE(continued(*model, options, 20),
            continued(*model, {.sampling = {.temperature = 2, .seed = 6}}, 20));
}

TEST(Generator, Refuses) {
  const auto model = make("additive", nullptr);
  EXPECT_EQ(refusal([&] { Generator(*model, {}, {}); }), "[generate] the prompt gives no ids");
  EXPECT_EQ(refusal([&] { Generator(*model, {13}, {}); }),
            "[generate] id 13 is not below the model's vocabulary of 13");
  Transformer vectors(TransformerConfig{.connection = "additive", .layers = 1, .width = 8});
  EXPECT_EQ(refusal([&] { Generator(vectors, {1}, {}); }),
            "[generate] the model reads vectors, not tokens");
}

}  // namespace
}  // namespace geores
