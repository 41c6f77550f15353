#include "geores/train/device/device_loop.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>
#include <vector>

#include "geores/base/error.h"
#include "geores/data/batch_sampler.h"
#include "geores/modules/seeding.h"
#include "geores/ops/training/loss.h"
#include "geores/testing/testing.h"
#include "geores/train/evaluation.h"
#include "geores/train/optimizer/schedule.h"
#include "geores/train/small_run_test.h"

namespace geores {
namespace {

// The loop of a GPU, here on a CPU: tables and counters instead of numbers from the host.
TEST(DeviceLoop, TakesTheSameStepsAndEvaluationsAsTheHost) {
  const auto data = small_dataset();
  auto config = small_config();
  const auto make = [&] {
    return with_seed(7, [&] {
      auto model = make_model(config.model, input_shape(data));
      model->to(torch::kFloat64);
      return model;
    });
  };
  const auto host_model = make(), device_model = make();
  TrainingStep host(*host_model, {}), device(*device_model, {});
  const DeviceData doubles{data.train_x.to(torch::kFloat64), data.train_y.to(torch::kFloat64),
                           data.validation_x.to(torch::kFloat64),
                           data.validation_y.to(torch::kFloat64)};
  const BatchSampler sampler(3, data.train_x.size(0));
  std::set<int64_t> asked;
  const auto batch_of = [&](int64_t step) {
    asked.insert(step);
    return LoopBatch{.rows = sampler.indices(0, step, config.batch), .terms = {}};
  };
  const Schedule schedule{
      .peak = config.lr, .floor = config.min_lr, .warmup = config.warmup, .total = config.steps};
  DeviceLoop loop(*device_model, device, config, doubles, batch_of, 0, /*window=*/5);
  const auto pick = [](const Tensor& from, const std::vector<int64_t>& rows) {
    return from.index_select(0, torch::tensor(rows, torch::kInt64));
  };
  for (int64_t step = 0; step < 12; ++step) {
    const auto rows = sampler.indices(0, step, config.batch);
    const auto wanted =
        host.run(pick(doubles.train_x, rows), pick(doubles.train_y, rows), schedule.at(step));
    loop.step();
    EXPECT_EQ(asked.size(), std::min<size_t>(5 * (static_cast<size_t>(step) / 5 + 1),
                                             static_cast<size_t>(config.steps)));
    EXPECT_NEAR(loop.numbers(step).loss, wanted.loss.item<double>(), 1e-12) << step;
    EXPECT_NEAR(loop.numbers(step).gradient_norm, wanted.gradient_norm.item<double>(), 1e-10);
  }
  EXPECT_LT((host.parameters().values() - device.parameters().values()).abs().max().item<double>(),
            1e-12);
  const std::vector<std::vector<int64_t>> evaluation = {{0, 1, 2, 3}, {3, 2, 2, 0}};
  double mean = 0;
  for (const auto& rows : evaluation) {
    Trace trace;
    mean += 0.5 * task_loss(host_model->predict(pick(doubles.validation_x, rows), trace),
                            pick(doubles.validation_y, rows))
                      .item<double>();
  }
  EXPECT_NEAR(loop.evaluate(evaluation), mean, 1e-12);
  EXPECT_NEAR(loop.evaluate(evaluation), mean, 1e-12) << "a second evaluation starts anew";
}

TEST(TrainingStep, OnACpuAStepThatIsNotFiniteChangesNothing) {
  const auto data = small_dataset();
  const auto infinite = torch::full_like(data.train_y.slice(0, 0, 4), INFINITY);
  // The model's own kernels, then composed operations in a type that those do not have.
  for (const auto type : {torch::kFloat32, torch::kFloat64})
    for (const bool muon : {false, true}) {
      const auto model = make_model(small_config().model, input_shape(data));
      model->to(type);
      TrainingStep training(*model, {.method = muon ? "muon" : "adamw"});
      const auto x = data.train_x.slice(0, 0, 4).to(type), y = data.train_y.slice(0, 0, 4).to(type);
      training.run(x, y, 1e-3);
      const auto state = [&] {
        auto& optimizer = training.optimizer();
        return std::tuple(training.parameters().values().clone(), optimizer.first_moment().clone(),
                          optimizer.second_moment().clone(), optimizer.steps());
      };
      const auto [values, first, second, steps] = state();
      const auto expect_unchanged = [&](const char* what) {
        const auto [values_now, first_now, second_now, steps_now] = state();
        EXPECT_TRUE(torch::equal(values_now, values)) << what;
        EXPECT_TRUE(torch::equal(first_now, first)) << what;
        EXPECT_TRUE(torch::equal(second_now, second)) << what;
        EXPECT_EQ(steps_now, steps) << what;
      };
      EXPECT_TRUE(std::isinf(training.run(x, infinite.to(type), 1e-3).loss.item<double>()));
      expect_unchanged("loss");
      training.parameters().gradients().fill_(NAN);
      EXPECT_TRUE(std::isnan(training.optimizer().step(1e-3).item<double>()));
      expect_unchanged("gradient");
      EXPECT_TRUE(std::isfinite(training.run(x, y, 1e-3).gradient_norm.item<double>()));
      EXPECT_FALSE(torch::equal(training.parameters().values(), values)) << "and goes on";
    }
}

// Kernels do not check bounds.
TEST(DeviceLoop, RefusesWhatItsTablesDoNotHold) {
  const auto data = small_dataset();
  auto config = small_config();
  config.steps = 2;
  const auto model = make_model(config.model, input_shape(data));
  TrainingStep training(*model, {});
  const DeviceData there{data.train_x, data.train_y, data.validation_x, data.validation_y};
  const std::vector<int64_t> rows(static_cast<std::size_t>(config.batch), 0);
  using Batches = std::vector<LoopBatch>;
  const auto batches = [](const Batches& all) {
    return [all](int64_t step) { return all.at(static_cast<std::size_t>(step)); };
  };
  const auto refused = [&](const Batches& all) {
    return refusal([&] { DeviceLoop(*model, training, config, there, batches(all), 0).step(); });
  };
  EXPECT_EQ(refused({{rows, {}}, {{0, 0}, {}}}), "[train] batches differ in size");
  EXPECT_EQ(refused({{rows, 3.0}, {rows, {}}}),
            "[train] 2 batches need as many counts of terms, not 1");
  for (const auto row : {int64_t{-1}, data.train_x.size(0)}) {
    auto wrong = rows;
    wrong.back() = row;
    EXPECT_EQ(refused({{rows, {}}, {wrong, {}}}),
              "[train] a batch asks for sequences that are not there");
  }

  DeviceLoop loop(*model, training, config, there, batches({{rows, {}}, {rows, {}}}), 0);
  loop.step();
  loop.step();
  EXPECT_EQ(refusal([&] { loop.step(); }), "[train] all 2 steps are taken");
  EXPECT_EQ(refusal([&] { loop.evaluate({}); }), "[train] no batch to evaluate");
  EXPECT_EQ(refusal([&] { loop.evaluate({{0}}); }),
            fmt::format("[train] a batch to evaluate has 1 sequences, not {}", config.batch));
}

}  // namespace
}  // namespace geores
