#include "geores/model/recursive/recursive.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "geores/model/registry.h"
#include "geores/testing/gradient_check.h"
#include "geores/testing/testing.h"

namespace geores {
namespace {

constexpr int64_t kRows = 3, kCells = 4, kColours = 5;

// Every mixer in every supported layout.
std::vector<RecursiveOptions> all_small() {
  RecursiveOptions plain{.width = 8,
                         .streams = 2,
                         .heads = 2,
                         .layers = 1,
                         .expansion = 1,
                         .mlp_multiple = 2,
                         .prefix = 2,
                         .table_width = 11,
                         .identifiers = 4,
                         .h_cycles = 1,
                         .l_cycles = 1,
                         .act_steps = 3,
                         .explore = 0,
                         .hidden = 3};
  std::vector<RecursiveOptions> all = {plain};
  auto other = plain;
  other.positions = "learned";
  all.push_back(other);
  other.mlp_t = true;
  all.push_back(other);
  for (const auto* layout : {"split", "expand"})
    for (const auto* mixer : {"cayley", "cayley_exact", "sinkhorn", "grassmann", "permutation",
                              "identity", "sinkhorn_softmax", "edelta", "shc"}) {
      auto options = plain;
      options.mixer = mixer;
      options.layout = layout;
      if (options.mixer == "shc" && options.layout == "split") continue;
      if (options.layout == "split") options.reflection = "whole";
      all.push_back(options);
    }
  return all;
}

std::string name_of(const RecursiveOptions& o) {
  return o.mixer + " " + o.layout + " " + o.positions + (o.mlp_t ? " mlp_t" : "");
}

std::shared_ptr<Recursive> make(const RecursiveOptions& options) {
  auto model = std::make_shared<Recursive>(
      options, InputShape{.length = kCells, .width = 1, .vocabulary = kColours});
  model->to(torch::kFloat64);
  return model;
}

// Moves parameters away from special initial values; the scale keeps the recursion stable.
// Sinkhorn's implicit gradient is that of the converged matrix, so its iteration must converge.
void randomize(Recursive& model) {
  const torch::NoGradGuard no_grad;
  for (const auto& item : model.named_parameters()) {
    const auto keep = item.key().find("mixer.res.") == std::string::npos ? 0.5 : 0.0;
    item.value().mul_(keep).add_(torch::randn_like(item.value()), 0.2);
  }
  model.table().normal_(0, 0.5);
}

Batch random_batch(int64_t rows = kRows) {
  const auto tokens = torch::randint(kColours, {rows, kCells}, torch::kInt64);
  auto labels = torch::randint(kColours, {rows, kCells}, torch::kInt64);
  labels.select(1, 0).fill_(-100);
  const auto identifiers = torch::arange(rows).remainder(4).unsqueeze(1);
  return {torch::cat({identifiers, tokens}, 1), labels};
}

Tensor everything(const Recursive::Answer& answer) {
  return torch::cat({answer.logits.flatten(), answer.q.flatten()});
}

TEST(Recursive, GradientsOfAPassAreThoseOfCentralDifferences) {
  torch::manual_seed(1);
  for (const auto& options : all_small()) {
    // The contract test checks each connection separately; this test checks the model around them.
    if (options.mixes() && options.mixer != "edelta" && options.mixer != "shc" &&
        options.mixer != "sinkhorn_softmax")
      continue;
    const auto model = make(options);
    randomize(*model);
    const auto [x, y] = random_batch();
    const auto rows = model->table().index_select(0, x.select(1, 0)).requires_grad_(true);
    std::vector<std::pair<std::string, Tensor>> leaves = {{"table", rows}};
    for (const auto& item : model->named_parameters())
      leaves.emplace_back(item.key(), item.value());
    const auto check = check_gradients(
        [&, tokens = x.slice(1, 1)] {
          auto states = model->initial_states(kRows);
          Trace trace;
          const auto out = everything(model->pass(states, model->embedded(tokens, rows), trace));
          const auto gate = trace.loss();
          return gate.defined() ? torch::cat({out, gate.view({1})}) : out;
        },
        leaves, 1);
    EXPECT_LT(check.error, 1e-6) << name_of(options) << ": " << check.worst;
  }
}

// Gradients flow through the last cycle only: they equal those of one cycle from the states after
// the others, and differ from those of all cycles.
TEST(Recursive, OnlyTheLastCycleHasGradients) {
  torch::manual_seed(2);
  auto options = all_small().front();
  const auto one = make(options);
  options.h_cycles = 3;
  const auto three = make(options);
  randomize(*one);
  {
    const torch::NoGradGuard no_grad;
    auto to = three->named_parameters();
    for (const auto& item : one->named_parameters()) to[item.key()].copy_(item.value());
    auto buffers = three->named_buffers();
    for (const auto& item : one->named_buffers()) buffers[item.key()].copy_(item.value());
  }
  const auto [x, y] = random_batch();
  const auto rows = one->table().index_select(0, x.select(1, 0));
  const auto gradient = [&](Recursive& model, Recursive::States states) {
    model.zero_grad();
    Trace trace;
    const auto out = everything(model.pass(states, model.embedded(x.slice(1, 1), rows), trace));
    (out * torch::arange(out.numel(), out.options())).sum().backward();
    std::vector<Tensor> all = {out.detach()};
    for (const auto& parameter : model.parameters()) all.push_back(parameter.grad().flatten());
    return torch::cat(all);
  };
  auto states = one->initial_states(kRows);
  for (int cycle = 0; cycle < 2; ++cycle) {
    Trace trace;
    one->pass(states, one->embedded(x.slice(1, 1), rows), trace);
  }
  const auto last = gradient(*one, states), all = gradient(*three, three->initial_states(kRows));
  EXPECT_LT((last - all).abs().max().item<double>(), 1e-12 * all.abs().max().item<double>());

  std::vector<std::pair<std::string, Tensor>> leaves;
  for (const auto& item : three->named_parameters())
    if (item.key().find("attention") != std::string::npos)
      leaves.emplace_back(item.key(), item.value());
  const auto whole = check_gradients(
      [&] {
        auto begin = three->initial_states(kRows);
        Trace trace;
        return everything(three->pass(begin, three->embedded(x.slice(1, 1), rows), trace));
      },
      leaves, 1);
  EXPECT_GT(whole.error, 1e-3) << "a gradient through all cycles is another one";
}

TEST(Recursive, CyclesWithoutGradientsKeepNothing) {
  torch::manual_seed(3);
  auto options = all_small().front();
  options.h_cycles = 4;
  const auto model = make(options);
  auto carry = model->initial_carry(kRows);
  const auto step = model->act_step(random_batch(), carry);
  EXPECT_FALSE(carry.at("answer").requires_grad());
  // The number of graph nodes behind the losses: the same as with one cycle.
  const auto nodes = [](const Tensor& loss) {
    std::set<torch::autograd::Node*> seen;
    std::vector<torch::autograd::Node*> open = {loss.grad_fn().get()};
    while (!open.empty()) {
      auto* node = open.back();
      open.pop_back();
      if (node == nullptr || !seen.insert(node).second) continue;
      for (const auto& edge : node->next_edges()) open.push_back(edge.function.get());
    }
    return seen.size();
  };
  options.h_cycles = 1;
  const auto plain = make(options);
  auto other = plain->initial_carry(kRows);
  const auto once = plain->act_step(random_batch(), other);
  EXPECT_EQ(nodes(step.losses.sum()), nodes(once.losses.sum()));
}

TEST(Recursive, HasTheSizesOfThePapers) {
  struct Size {
    RecursiveOptions options;
    int64_t cells, tokens, parameters;
  };
  const auto with = [](const std::string& mixer, const std::string& layout, int64_t width = 512,
                       int64_t heads = 8) {
    return RecursiveOptions{
        .mixer = mixer, .layout = layout, .width = width, .heads = heads, .reflection = "whole"};
  };
  const RecursiveOptions over_positions{.mlp_t = true};
  const Size sizes[] = {{{}, 900, 12, 6'829'058},
                        {{}, 81, 11, 6'828'034},
                        {{}, 900, 6, 6'822'914},
                        {over_positions, 81, 11, 5'028'866},
                        {over_positions, 900, 6, 18'795'522},
                        {with("cayley", "split"), 900, 12, 636'098},
                        {with("edelta", "split"), 900, 12, 804'074},
                        {with("cayley", "split", 2048, 32), 900, 12, 7'262'402},
                        {with("edelta", "split", 2048, 32), 900, 12, 7'928'042},
                        {with("cayley", "expand"), 900, 12, 7'238'658},
                        {with("sinkhorn", "expand"), 900, 12, 7'025'810}};
  for (auto size : sizes) {
    // All layers have the same size, so one of the two suffices to count both.
    ASSERT_EQ(size.options.layers, 2);
    size.options.layers = 1;
    const Recursive model(size.options,
                          {.length = size.cells, .width = 1, .vocabulary = size.tokens});
    int64_t layer = 0;
    for (const auto& item : model.named_parameters())
      if (item.key().starts_with("layers0.")) layer += item.value().numel();
    EXPECT_EQ(parameter_count(model) + layer, size.parameters)
        << name_of(size.options) << " " << size.options.width;
  }
}

TEST(Recursive, MlpWidthsMatchTheNumberOfParameters) {
  const auto matched = [](const std::string& mixer, const std::string& reflection = "streams") {
    RecursiveOptions options{
        .mixer = mixer, .layout = "expand", .width = 128, .hidden = 16, .reflection = reflection};
    const auto hidden = matched_mlp_hidden(options, 344);
    options.mlp_hidden = hidden;
    int64_t layers = 0;
    for (int64_t i = 0; i < 2; ++i) layers += parameter_count(RecursiveLayer(options, 17, i));
    return std::pair{hidden, layers};
  };
  EXPECT_EQ(matched("none"), std::pair(int64_t{344}, int64_t{395'264}));
  EXPECT_EQ(matched("cayley"), std::pair(int64_t{208}, int64_t{393'216}));
  EXPECT_EQ(matched("sinkhorn"), std::pair(int64_t{280}, int64_t{395'408}));
  EXPECT_EQ(matched("edelta"), std::pair(int64_t{216}, int64_t{396'408}));
  EXPECT_EQ(matched("edelta", "whole"), std::pair(int64_t{168}, int64_t{394'088}));
}

TEST(Recursive, StartsAsItSays) {
  torch::manual_seed(4);
  const Recursive model({.layers = 1}, {.length = 9, .width = 1, .vocabulary = 12});
  const auto parameters = model.named_parameters();
  const auto weight = parameters["layers0.attention.qkv"];
  const auto unit = weight.detach() * std::sqrt(512.0);
  EXPECT_NEAR(unit.std().item<double>(), 1, 0.01);
  EXPECT_LE(unit.abs().max().item<double>(), 2 / 0.8796 + 1e-4);
  EXPECT_GT(unit.abs().max().item<double>(), 2.2);
  EXPECT_EQ(parameters["q_head"].abs().max().item<double>(), 0);
  EXPECT_EQ(parameters["q_bias"][0].item<double>(), -5);
  EXPECT_EQ(model.named_buffers()["table"].abs().max().item<double>(), 0);
  EXPECT_NEAR(model.named_buffers()["answer_start"].std().item<double>(), 1, 0.1);
}

// The gradients of a first training step, by parameter.
std::map<std::string, double> first_gradients(const RecursiveOptions& options) {
  const auto model = make(options);
  auto carry = model->initial_carry(kRows);
  {
    // Halting weights start at zero, which has no effect here: logits carry the gradient.
    const auto objective = model->objective(random_batch(), carry);
    objective.total().backward();
  }
  std::map<std::string, double> largest;
  for (const auto& item : model->named_parameters())
    largest[item.key()] =
        item.value().grad().defined() ? item.value().grad().abs().max().item<double>() : -1;
  return largest;
}

TEST(Recursive, EveryPartOfEveryMixerHasAGradientAtTheFirstStep) {
  torch::manual_seed(5);
  for (const auto& options : all_small()) {
    for (const auto& [name, largest] : first_gradients(options)) {
      // W = 0 blocks the gradients of the scales of the sigmoid routes and of sHC until it has
      // changed.
      if (name.ends_with("scale") || name.ends_with("amplitude")) continue;
      EXPECT_GT(largest, 0) << name_of(options) << ": " << name;
    }
  }
}

// The initial state of EΔ's code: u = v = 0 is a saddle, so u, v and β never change.
TEST(Recursive, TheReferenceStartOfEdeltaIsDead) {
  torch::manual_seed(6);
  for (auto options : all_small()) {
    if (options.mixer != "edelta" || options.reflection != "whole") continue;
    options.mixer_start = "reference";
    const auto model = make(options);
    auto carry = model->initial_carry(kRows);
    model->objective(random_batch(), carry).total().backward();
    const auto parameters = model->named_parameters();
    const auto bias = parameters["layers0.attention_mixer.generator.output.bias"].grad();
    const auto n = options.streams;
    EXPECT_EQ(bias.slice(0, 0, 2 * n + 1).abs().max().item<double>(), 0) << name_of(options);
    EXPECT_GT(bias.slice(0, 2 * n + 1).abs().max().item<double>(), 0) << name_of(options);
  }
}

// A control: EΔ's routes around an operator that stays the identity.
TEST(Recursive, TheIdentityStartOfEdeltaNeverMixes) {
  torch::manual_seed(6);
  for (auto options : all_small()) {
    if (options.mixer != "edelta") continue;
    options.mixer_start = "identity";
    const auto model = make(options);
    auto carry = model->initial_carry(kRows);
    const auto batch = random_batch();
    model->objective(batch, carry).total().backward();
    const auto parameters = model->named_parameters();
    const std::string mixer = "layers0.attention_mixer.";
    for (const auto* name : {"generator.output.weight", "generator.output.bias"})
      EXPECT_EQ(parameters[mixer + name].grad().abs().max().item<double>(), 0)
          << name_of(options) << " " << name;
    EXPECT_GT(parameters[mixer + "router.weight"].grad().abs().max().item<double>(), 0)
        << name_of(options);

    Trace trace(/*probing=*/true);
    auto states = model->initial_states(kRows);
    const auto rows = model->table().index_select(0, batch.x.select(1, 0));
    model->pass(states, model->embedded(batch.x.slice(1, 1), rows), trace);
    int operators = 0;
    for (const auto& [name, value] : trace.probes())
      if (name == "operator") {
        ++operators;
        EXPECT_LT((value - torch::eye(value.size(-1), value.options())).abs().max().item<double>(),
                  1e-12)
            << name_of(options);
      }
    EXPECT_GT(operators, 0) << name_of(options);
  }
}

TEST(Recursive, ANanInTheCarryOfAHaltedRowLeavesNoTrace) {
  torch::manual_seed(7);
  const auto model = make(all_small().front());
  randomize(*model);
  const auto batch = random_batch();
  const auto after = [&](bool poisoned) {
    auto carry = model->initial_carry(kRows);
    if (poisoned)
      for (const auto* name : {"answer", "scratch"})
        carry.set(name, torch::full_like(carry.at(name), std::nan("")));
    const auto step = model->act_step(batch, carry);
    return torch::cat({everything(step.answer).detach(), carry.at("answer").flatten(),
                       carry.at("scratch").flatten()});
  };
  EXPECT_TRUE(torch::equal(after(false), after(true)));
}

TEST(Recursive, RowsThatStillRunIgnoreTheBatch) {
  torch::manual_seed(8);
  const auto model = make(all_small().front());
  randomize(*model);
  {
    const torch::NoGradGuard no_grad;
    model->named_parameters()["q_head"].zero_();
    model->named_parameters()["q_bias"].fill_(-1);  // never halts before the last step
  }
  auto carry = model->initial_carry(kRows);
  const auto first = random_batch(), second = random_batch();
  std::vector<Tensor> inputs, steps;
  for (int i = 0; i < 4; ++i) {
    model->act_step(i == 0 ? first : second, carry);
    inputs.push_back(carry.at("inputs").clone());
    steps.push_back(carry.at("steps").clone());
  }
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(torch::equal(inputs[size_t(i)], first.x.slice(1, 1))) << i;
    EXPECT_TRUE((steps[size_t(i)] == i + 1).all().item<bool>());
  }
  EXPECT_TRUE(torch::equal(inputs[3], second.x.slice(1, 1)));
  EXPECT_TRUE((steps[3] == 1).all().item<bool>());
}

TEST(Recursive, TrainsContinueAgainstTheNextPass) {
  torch::manual_seed(9);
  auto options = all_small().front();
  options.train_continue = true;
  const auto model = make(options);
  randomize(*model);
  auto carry = model->initial_carry(kRows);
  const auto batch = random_batch();
  const auto step = model->act_step(batch, carry);
  Recursive::States states{carry.at("answer"), carry.at("scratch")};
  const torch::NoGradGuard no_grad;
  Trace trace;
  const auto rows = model->table().index_select(0, batch.x.select(1, 0));
  const auto later = model->pass(states, model->embedded(batch.x.slice(1, 1), rows), trace).q;
  const auto target = torch::sigmoid(later.amax(1)), q = step.answer.q.select(1, 1);
  const auto wanted =
      step.scores.lm_loss + 0.5 * step.scores.q_loss -
      0.5 * (target * torch::log_sigmoid(q) + (1 - target) * torch::log_sigmoid(-q));
  EXPECT_LT((step.losses - wanted).abs().max().item<double>(), 1e-12);
  EXPECT_TRUE(torch::equal(carry.at("halted"), step.answer.q.select(1, 0) > q));
}

TEST(Recursive, IsAModelOfTheRegistry) {
  const ModelConfig config{.kind = "recursive",
                           .options = {{"mixer", "cayley"},
                                       {"width", 8},
                                       {"heads", 2},
                                       {"h_cycles", 1},
                                       {"l_cycles", 2},
                                       {"act_steps", 2}}};
  const InputShape shape{.length = 4, .width = 1, .vocabulary = 5};
  const auto model = make_model(config, shape);
  Trace trace;
  EXPECT_EQ(model->predict(torch::zeros({2, 4}, torch::kInt64), trace).sizes(),
            at::IntArrayRef({2, 4, 5}));
  EXPECT_GT(
      model->evaluate({torch::zeros({2, 4}, torch::kInt64), torch::zeros({2, 4}, torch::kInt64)})
          .mean()
          .item<double>(),
      0);
  const auto refused = [&](const nlohmann::json& options) {
    return refusal([&] { make_model({.kind = "recursive", .options = options}, shape); });
  };
  EXPECT_EQ(refused({{"width", 10}, {"heads", 4}}),
            "[recursive] width 10 is not divisible by 4 heads");
  EXPECT_EQ(refused({{"mixer", "cayley"}, {"mlp_t", true}}),
            "[recursive] mlp_t has no mixer; got mixer cayley");
  EXPECT_EQ(refused({{"mixer", "shc"}}), "[recursive] mixer shc needs layout expand");
  EXPECT_EQ(refused({{"table_width", 20000}}),
            "[recursive] a table row of 20000 values does not fit 16 prefix positions of 512");
  EXPECT_EQ(refusal([&] {
              make_model({.kind = "recursive"}, {.length = 4, .width = 3, .vocabulary = 0});
            }),
            "[recursive] reads tokens, not vectors");
  EXPECT_EQ(refusal([&] {
              model->predict(torch::zeros({2, 7}, torch::kInt64), trace);
            }),
            "[recursive] a batch has 7 columns, expected 4 cells and perhaps an identifier");
}

}  // namespace
}  // namespace geores
