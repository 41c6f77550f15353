#include "geores/model/recursive/recursive.h"

#include <gtest/gtest.h>

#include "geores/model/recursive/halting.h"
#include "geores/modules/seeding.h"
#include "geores/testing/testing.h"
#include "geores/train/training_step.h"

namespace geores {
namespace {

constexpr int64_t kRows = 8, kCells = 5, kVocabulary = 6;

RecursiveOptions small(const std::string& mixer = "none") {
  return {.mixer = mixer,
          .layout = "expand",
          .width = 8,
          .streams = 2,
          .heads = 2,
          .layers = 1,
          .expansion = 1,
          .mlp_multiple = 2,
          .prefix = 1,
          .identifiers = 5,
          .h_cycles = 2,
          .l_cycles = 1,
          .act_steps = 3,
          .explore = 0.5,
          .hidden = 3};
}

std::shared_ptr<Recursive> make(const RecursiveOptions& options) {
  return with_seed(1, [&] {
    auto model = std::make_shared<Recursive>(
        options, InputShape{.length = kCells, .width = 1, .vocabulary = kVocabulary});
    model->to(torch::kFloat64);
    const torch::NoGradGuard no_grad;
    model->named_parameters()["q_bias"].fill_(0.0);  // rows halt at different steps
    model->named_parameters()["q_head"].normal_(0, 0.3);
    return model;
  });
}

Batch batch_of(int64_t step) {
  torch::manual_seed(static_cast<uint64_t>(100 + step));
  const auto tokens = torch::randint(kVocabulary, {kRows, 2 * kCells}, torch::kInt64);
  return {torch::cat({torch::randint(5, {kRows, 1}, torch::kInt64), tokens.slice(1, 0, kCells)}, 1),
          tokens.slice(1, kCells)};
}

struct RecursiveTraining {
  explicit RecursiveTraining(const RecursiveOptions& options)
      : model(make(options)),
        training(*model, {.method = "adam_atan2", .clip = 0, .table_decay = 0.1, .average = 0.9},
                 model->initial_carry(kRows)) {}

  void steps(int64_t first, int64_t count, int64_t parts = 1) {
    for (int64_t i = first; i < first + count; ++i) {
      const auto batch = batch_of(i);
      training.run(batch.x, batch.y, LearningRates(0.01, 0.02), parts);
    }
  }

  // The state after a step.
  Tensor everything() {
    std::vector<Tensor> all = {training.parameters().values(), training.average(),
                               training.optimizer().first_moment(), model->table()};
    for (const auto& [name, tensor] : training.carry().all())
      all.push_back(name == "draws" ? tensor.remainder(1000) : tensor);
    for (auto& tensor : all) tensor = tensor.detach().flatten().to(torch::kFloat64);
    return torch::cat(all);
  }

  std::shared_ptr<Recursive> model;
  TrainingStep training;
};

TEST(RecursiveStep, MicroBatchesAreTheWholeBatch) {
  for (const auto* mixer : {"none", "cayley", "edelta", "grassmann"}) {
    RecursiveTraining whole(small(mixer)), parts(small(mixer));
    bool apart = false;  // rows at different passes
    for (int64_t i = 0; i < 8; ++i) {
      whole.steps(i, 1);
      const auto steps = whole.training.carry().at("steps");
      apart = apart || steps.max().item<int64_t>() > steps.min().item<int64_t>();
    }
    EXPECT_TRUE(apart) << mixer;
    parts.steps(0, 8, 4);
    const auto one = whole.everything(), four = parts.everything();
    EXPECT_LT((one - four).abs().max().item<double>(), 1e-10) << mixer;
    EXPECT_GT(whole.model->table().abs().max().item<double>(), 0.01);
  }
}

TEST(RecursiveStep, TheAverageFollowsTheWeights) {
  RecursiveTraining run(small());
  auto wanted = run.training.parameters().values().clone();
  for (int64_t i = 0; i < 3; ++i) {
    run.steps(i, 1);
    wanted = 0.9 * wanted + 0.1 * run.training.parameters().values();
  }
  EXPECT_LT((run.training.average() - wanted).abs().max().item<double>(), 1e-14);
  const auto weights = run.training.parameters().values().clone();
  {
    const AveragedParameters averaged(run.training);
    EXPECT_TRUE(torch::equal(run.training.parameters().values(), run.training.average()));
    EXPECT_FALSE(torch::equal(run.training.parameters().values(), weights));
  }
  EXPECT_TRUE(torch::equal(run.training.parameters().values(), weights));
}

// The identifiers that are trained are those of the puzzles in the carry, not of the puzzles on
// offer.
TEST(RecursiveStep, TrainsTheRowsOfThePuzzlesThatAreThoughtAbout) {
  auto options = small();
  options.explore = 0;
  RecursiveTraining run(options);
  {
    const torch::NoGradGuard no_grad;
    run.model->named_parameters()["q_head"].zero_();
    run.model->named_parameters()["q_bias"].fill_(-9);  // no row halts early
  }
  auto first = batch_of(0), second = batch_of(1);
  first.x.select(1, 0).fill_(1);
  second.x.select(1, 0).fill_(3);
  run.training.run(first.x, first.y, LearningRates(0.01, 0.02));
  run.training.run(second.x, second.y, LearningRates(0.01, 0.02));
  const auto moved = run.model->table().abs().sum(1) > 0;
  EXPECT_TRUE(torch::equal(moved, torch::tensor({false, true, false, false, false})));
}

TEST(RecursiveStep, LearnsToCopy) {
  auto options = small();
  options.width = 16;
  options.mlp_multiple = 8;
  options.act_steps = 2;
  const auto model = make(options);
  TrainingStep training(*model,
                        {.method = "adam_atan2", .clip = 0, .table_decay = 0.1, .average = 0.9},
                        model->initial_carry(kRows));
  double loss = 0, first = 0;
  for (int64_t i = 0; i < 150; ++i) {
    auto [x, y] = batch_of(i);
    y = x.slice(1, 1).clone();
    const auto done = training.run(x, y, LearningRates(0.01, 0.01));
    loss = done.loss.item<double>();
    if (i == 0) first = loss;
  }
  EXPECT_LT(loss, 0.5 * first);
}

TEST(RecursiveStep, RefusesWhatItCannotSplit) {
  RecursiveTraining run(small());
  EXPECT_EQ(refusal([&] { run.steps(0, 1, 3); }),
            "[train] a batch of 8 cannot be split into 3 equal parts");
  auto options = small("edelta");
  options.gate_scale = "reference";
  RecursiveTraining reference(options);
  EXPECT_EQ(refusal([&] { reference.steps(0, 1, 2); }),
            "[train] gate_scale reference depends on the size of a batch: it has no micro-batches");
}

}  // namespace
}  // namespace geores
