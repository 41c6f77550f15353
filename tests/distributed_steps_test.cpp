// Training steps in several processes against the same steps in one. The test program starts itself
// again for each rank; rank 0 writes its trained weights to a file.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "geores/base/file.h"
#include "geores/model/recursive/recursive.h"
#include "geores/model/registry.h"
#include "geores/modules/seeding.h"
#include "geores/storage/state_file.h"
#include "geores/testing/testing.h"
#include "geores/train/communication/run_group.h"
#include "geores/train/communication/shared_run.h"
#include "geores/train/evaluation.h"
#include "geores/train/trainer.h"
#include "geores/train/training_step.h"

namespace geores {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kBatch = 12, kLength = 6, kSteps = 20;

struct Case {
  std::string name;
  nlohmann::json options;
  bool tokens = false;
  int64_t parts = 1;
};

std::vector<Case> cases() {
  const auto options = [](const std::string& connection, nlohmann::json more = {}) {
    nlohmann::json all = {{"connection", connection}, {"layers", 2}, {"width", 16}, {"heads", 2}};
    if (!more.is_null()) all.update(more);
    return all;
  };
  return {{"vectors", options("additive")},
          {"accumulated", options("additive"), false, 2},
          {"mhc", options("mhc")},
          {"grassmann", options("jpmhc", {{"mixer", "grassmann"}})},
          {"dropout", options("additive", {{"dropout", 0.2}}), true},
          // Sequences with different numbers of scored positions.
          {"uneven", options("additive"), true},
          {"uneven, accumulated", options("additive"), true, 2}};
}

Batch sequences(bool tokens, torch::ScalarType type) {
  torch::manual_seed(3);
  if (!tokens) {
    const auto x = torch::randn({kBatch, kLength, 4}, torch::kFloat64).to(type);
    return {x, x.roll(1, 1)};
  }
  const auto x = torch::randint(5, {kBatch, kLength}, torch::kInt64);
  auto y = x.roll(1, 1);
  for (int64_t row = 0; row < kBatch; ++row) y[row].slice(0, 0, row / 3).fill_(-1);
  return {x, y};
}

// Everything that training leaves, flat, in float64: parameters, losses, gradient norms.
Tensor trained(const Case& tried, torch::ScalarType type, const Communicator& communicator) {
  const auto data = sequences(tried.tokens, type);
  const InputShape shape{
      .length = kLength, .width = tried.tokens ? 1 : 4, .vocabulary = tried.tokens ? 5 : 0};
  const auto model = with_seed(
      1, [&] { return make_model({.kind = "transformer", .options = tried.options}, shape); });
  model->to(type);
  // By symmetry some gradients are zero but for rounding. Divided by its own size, as AdamW does, such
  // a gradient is a step of full length in any direction: in float32 a larger ε keeps it small.
  const bool exact = type == torch::kFloat64;
  TrainingStep training(*model, {.epsilon = exact ? 1e-8 : 1e-2}, {}, communicator);
  const auto rows = kBatch / communicator.size(), begin = rows * communicator.rank();
  const auto terms = tried.tokens ? scored_terms(data.y).to(torch::kFloat64) : Tensor();
  std::vector<Tensor> numbers;
  for (int64_t step = 0; step < kSteps; ++step) {
    training.set_pass(1, torch::full({1}, step, torch::kInt64));
    const auto done = training.run(data.x.slice(0, begin, begin + rows),
                                   data.y.slice(0, begin, begin + rows), 3e-3, tried.parts, terms);
    numbers.insert(numbers.end(), {done.loss, done.gradient_norm});
  }
  std::vector<Tensor> all = {torch::stack(numbers).to(torch::kFloat64)};
  for (const auto& tensor : tensors_of(*model))
    all.push_back(tensor.detach().flatten().to(torch::kFloat64));
  return torch::cat(all);
}

constexpr int64_t kCells = 5, kVocabulary = 6;

// The same of the recursive model on puzzles, with its table, average and carry.
Tensor trained_recursive(const std::string& mixer, const Communicator& communicator) {
  const RecursiveOptions options{.mixer = mixer,
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
  const auto model = with_seed(1, [&] {
    auto made = std::make_shared<Recursive>(
        options, InputShape{.length = kCells, .width = 1, .vocabulary = kVocabulary});
    made->to(torch::kFloat64);
    const torch::NoGradGuard no_grad;
    made->named_parameters()["q_bias"].fill_(0.0);  // rows halt at different steps
    made->named_parameters()["q_head"].normal_(0, 0.3);
    return made;
  });
  TrainingStep training(*model,
                        {.method = "adam_atan2", .clip = 0, .table_decay = 0.1, .average = 0.9},
                        model->initial_carry(kBatch), communicator);
  const auto rows = kBatch / communicator.size(), begin = rows * communicator.rank();
  std::vector<Tensor> all;
  for (int64_t step = 0; step < 8; ++step) {
    torch::manual_seed(static_cast<uint64_t>(100 + step));
    const auto x = torch::cat({torch::randint(5, {kBatch, 1}, torch::kInt64),
                               torch::randint(kVocabulary, {kBatch, kCells}, torch::kInt64)},
                              1),
               y = torch::randint(kVocabulary, {kBatch, kCells}, torch::kInt64);
    const auto done = training.run(x.slice(0, begin, begin + rows), y.slice(0, begin, begin + rows),
                                   LearningRates(0.01, 0.02), /*parts=*/2);
    all.insert(all.end(), {done.loss, done.gradient_norm});
  }
  training.gather_carry();
  all.insert(all.end(), {training.average(), training.optimizer().second_moment()});
  for (const auto& tensor : tensors_of(*model)) all.push_back(tensor);
  for (const auto& [name, tensor] : training.carry().all())
    all.push_back(name == "draws" ? tensor.remainder(1000) : tensor);
  for (auto& tensor : all) tensor = tensor.detach().flatten().to(torch::kFloat64);
  return torch::cat(all);
}

// The whole of train(), steps as a GPU's loop takes them, on sequences with −1 and with evaluations
// whose batches do not go up into the processes.
Tensor whole_run(DeviceLoopOn loop, const Communicator& communicator) {
  const auto train = sequences(true, torch::kFloat32);
  Dataset data;
  data.task = "test";
  data.vocabulary = 5;
  data.train_x = train.x;
  data.train_y = train.y;
  data.validation_x = train.x.roll(2, 1);
  data.validation_y = train.y;
  TrainConfig config;
  config.model.options = cases().front().options;
  config.steps = 9;
  config.batch = kBatch;
  config.accumulate = 2;
  config.warmup = 2;
  config.eval_interval = 4;
  config.eval_batches = 5;
  config.final_eval_batches = 7;
  const auto result = geores::train(config, data, {}, {}, built_in(), loop, communicator);
  return torch::tensor({result.train_loss, result.best_validation, result.final_validation,
                        result.exact_validation, result.exact_best, double(result.best_step)},
                       torch::kFloat64);
}

// Bits of losses over sets that do not split evenly, of a model that was not trained.
Tensor evaluated(const Communicator& communicator) {
  const auto data = sequences(true, torch::kFloat32);
  const auto model = with_seed(1, [&] {
    return make_model({.kind = "transformer", .options = cases().front().options},
                      {.length = kLength, .width = 1, .vocabulary = 5});
  });
  const std::vector<std::vector<int64_t>> drawn = {{0, 11}, {3, 5}, {7, 7}, {10, 2}, {1, 9}};
  return torch::tensor({exact_loss(*model, data.x, data.y, 5, communicator),
                        exact_loss(*model, data.x, data.y, 1, communicator),
                        loss_over_batches(*model, data.x, data.y, drawn, communicator)},
                       torch::kFloat64);
}

std::map<std::string, Tensor> all_results(const Communicator& communicator) {
  std::map<std::string, Tensor> results;
  for (const auto& tried : cases()) {
    results[tried.name + ", float32"] = trained(tried, torch::kFloat32, communicator);
    results[tried.name + ", float64"] = trained(tried, torch::kFloat64, communicator);
  }
  for (const auto* mixer : {"none", "grassmann"})
    results[std::string("recursive ") + mixer] = trained_recursive(mixer, communicator);
  results["run"] = whole_run(DeviceLoopOn::gpu, communicator);
  results["run by tables"] = whole_run(DeviceLoopOn::every_device, communicator);
  results["evaluation"] = evaluated(communicator);
  return results;
}

// ---- in each process of a group

std::string refused_difference(const Communicator& communicator) {
  const auto own = torch::full({5}, communicator.rank() == 1 ? 1.0f : 0.0f);
  return refusal([&] {
    require_same_values(communicator, {torch::ones({3}), own}, "after step 7");
  });
}

TEST(DistributedWorker, DISABLED_Trains) {
  RunGroup group(*group_member(), 30);
  const auto communicator = group.communicator("cpu");
  auto results = all_results(*communicator);
  require_same_values(*communicator, {torch::ones({3})}, "");
  const auto refused = refused_difference(*communicator);
  EXPECT_EQ(refused, communicator->size() == 1
                         ? ""
                         : "[train] the weights of ranks 0 and 1 differ after step 7: their "
                           "machines do not compute alike");
  if (!communicator->is_first()) return;
  SafetensorsWriter writer;
  for (const auto& [name, tensor] : results) add_tensor(writer, name, tensor);
  writer.save(std::getenv("GEORES_TEST_OUT"));
}

// ---- in the test

struct Group {
  explicit Group(int64_t size) {
    std::vector<pid_t> children;
    const auto file = (folder.path() / "results").string();
    for (int64_t rank = 0; rank < size; ++rank) {
      children.push_back(fork());
      if (children.back() != 0) continue;
      setenv(kLocalFolder, folder.path().c_str(), 1);
      setenv(kLocalRank, std::to_string(rank).c_str(), 1);
      setenv(kLocalSize, std::to_string(size).c_str(), 1);
      setenv("GEORES_TEST_OUT", file.c_str(), 1);
      unsetenv("GTEST_SHARD_INDEX");
      unsetenv("GTEST_TOTAL_SHARDS");
      execl("/proc/self/exe", "test", "--gtest_filter=DistributedWorker.*",
            "--gtest_also_run_disabled_tests", "--gtest_brief=1", nullptr);
      _exit(127);
    }
    for (const auto child : children) {
      int status = 0;
      waitpid(child, &status, 0);
      EXPECT_EQ(status, 0);
    }
    const auto found = Safetensors::load(file);
    for (const auto& name : found.names()) results[name] = to_tensor(found.at(name));
  }

  TemporaryFolder folder;
  std::map<std::string, Tensor> results;
};

// Relative for values above 1: gradient norms.
double distance(const Tensor& a, const Tensor& b) {
  if (a.sizes() != b.sizes()) return 1e300;
  return ((a - b) / a.abs().clamp_min(1)).abs().max().item<double>();
}

TEST(DistributedSteps, AreThoseOfOneProcess) {
  const auto one = all_results(one_process());
  for (const int64_t size : {1, 2, 3}) {
    const Group group(size);
    ASSERT_EQ(group.results.size(), one.size());
    for (const auto& [name, tensor] : one) {
      const auto& found = group.results.at(name);
      const auto difference = distance(tensor, found);
      EXPECT_TRUE(torch::isfinite(found).all().item<bool>()) << name;
      const auto allowed = name == "evaluation"                  ? 0.0
                           : name.find("float64") != name.npos   ? 1e-12
                           : name.find("recursive") != name.npos ? 1e-10
                                                                 : 1e-6;
      EXPECT_LE(difference, allowed) << name << " in " << size << " processes";
    }
  }
}

}  // namespace
}  // namespace geores
