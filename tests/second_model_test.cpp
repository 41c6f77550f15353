// A model of another kind than the transformer, with a carry between steps and a meter of its own:
// trained, checkpointed, killed, resumed, evaluated and inspected by the code that is independent of the model.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "geores/base/error.h"
#include "geores/base/file.h"
#include "geores/data/batch_sampler.h"
#include "geores/modules/layers.h"
#include "geores/modules/seeding.h"
#include "geores/residual/registry.h"
#include "geores/storage/state_file.h"
#include "geores/testing/testing.h"
#include "geores/train/device/device_loop.h"
#include "geores/train/evaluation.h"
#include "geores/train/optimizer/schedule.h"
#include "geores/train/trainer.h"
#include "lab/diagnostics/inspect.h"

namespace geores {
namespace {

namespace fs = std::filesystem;

struct RecurrentOptions {
  int64_t hidden = 6;
  int64_t cells = 3;

  Fields fields() {
    return Fields()
        .add("hidden", hidden, "values of the hidden state", {.min = 1})
        .add("cells", cells, "residual connections a position passes", {.min = 1});
  }
};

// h_t = cells(h_{t−1} + W x_t), ŷ_t = V h_t. Each cell is an additive connection around tanh of a
// linear map. The next training step begins with the hidden state after the last position.
class Recurrent : public Model {
 public:
  Recurrent(const RecurrentOptions& options, const InputShape& input)
      : options_(options),
        shape_(input),
        in_(register_module("in", make_linear(input.width, options.hidden, true, 0.5))),
        out_(register_module("out", make_linear(options.hidden, input.width, true, 0.5))) {
    for (int64_t i = 0; i < options.cells; ++i) {
      connections_.push_back(register_module(
          "connection" + std::to_string(i),
          make_residual("additive", {.width = options.hidden, .streams = 1, .index = i})));
      maps_.push_back(register_module("map" + std::to_string(i),
                                      make_linear(options.hidden, options.hidden, true, 0.5)));
    }
  }

  InputShape input() const override { return shape_; }

  Tensor predict(const Tensor& x, Trace& trace) override {
    return run(x, torch::zeros({x.size(0), options_.hidden}, out_->weight.options()), trace).first;
  }

  Objective objective(const Batch& batch, Carry& carry) override {
    Trace trace;
    // In place on the carry, so the pass itself reads a copy.
    const auto [prediction, hidden] = run(batch.x, carry.at("hidden").clone(), trace);
    carry.set("hidden", hidden);
    carry.set("steps", carry.at("steps") + 1);
    return prediction_objective(prediction, batch.y, trace);
  }

  Carry initial_carry(int64_t rows, int64_t) const override {
    Carry carry;
    carry.add("hidden", torch::zeros({rows, options_.hidden}, out_->weight.options()));
    carry.add(
        "steps",
        torch::zeros({rows}, torch::TensorOptions(torch::kInt64).device(out_->weight.device())));
    return carry;
  }

  std::optional<ResidualStack> residual_stack() override {
    ResidualStack stack{.connection = "additive",
                        .stages = {},
                        .initial_state = [this](const Tensor& x) { return in_->forward(x); }};
    for (size_t i = 0; i < connections_.size(); ++i)
      stack.stages.push_back({"cell " + std::to_string(i), static_cast<int64_t>(i / 2),
                              connections_[i].get(), sublayer(i)});
    return stack;
  }

 private:
  Sublayer sublayer(size_t i) {
    return [map = maps_[i]](const Tensor& h) mutable { return torch::tanh(map->forward(h)); };
  }

  // Predictions (B, T, width) and the last hidden state.
  std::pair<Tensor, Tensor> run(const Tensor& x, Tensor hidden, Trace& trace) {
    std::vector<Tensor> outputs;
    for (const auto& now : in_->forward(x).unbind(1)) {
      auto state = (hidden + now).unsqueeze(1);
      for (size_t i = 0; i < connections_.size(); ++i)
        state = connections_[i]->forward(state, sublayer(i), trace);
      hidden = torch::tanh(state.squeeze(1));
      outputs.push_back(out_->forward(hidden));
    }
    return {torch::stack(outputs, 1), hidden};
  }

  RecurrentOptions options_;
  InputShape shape_;
  torch::nn::Linear in_, out_;
  std::vector<std::shared_ptr<Residual>> connections_;
  std::vector<torch::nn::Linear> maps_;
};

ModelKind recurrent_kind() {
  return {.name = "recurrent",
          .summary = "a cell whose hidden state goes on to the next batch",
          .options = [](const nlohmann::json&) { return OptionSet::of<RecurrentOptions>(); },
          .all_options = [] { return OptionSet::of<RecurrentOptions>(); },
          .make =
              [](const nlohmann::json& given, const InputShape& input) {
                RecurrentOptions options;
                options.fields().read(given, "recurrent");
                return std::make_shared<Recurrent>(options, input);
              }};
}

Meter hidden_norm_meter() {
  return {.key = "hidden_norm",
          .summary = "norm of the carried hidden state",
          .at_evaluation = [](const EvaluationReading& now) {
            return now.carry.empty() ? nlohmann::json()
                                     : nlohmann::json(now.carry.at("hidden").norm().item<double>());
          }};
}

const Catalogue& catalogue() {
  static const auto all = [] {
    Catalogue mine = built_in();
    mine.models.push_back(recurrent_kind());
    mine.meters.push_back(hidden_norm_meter());
    return mine;
  }();
  return all;
}

TrainConfig small_config() {
  TrainConfig config;
  config.read({{"model", "recurrent"},
               {"cells", 3},
               {"task", "stability"},
               {"train_sequences", 20},
               {"validation_sequences", 8},
               {"length", 7},
               {"steps", 40},
               {"batch", 4},
               {"lr", 0.01},
               {"warmup", 5},
               {"eval_interval", 10},
               {"eval_batches", 2},
               {"final_eval_batches", 2},
               {"log_interval", 4},
               {"checkpoint_interval", 6}},
              "test", catalogue().models);
  return config;
}

const Dataset& data() {
  static const auto all = load_dataset(small_config().task);
  return all;
}

TrainResult train_in(const std::string& path, bool resume = false, const Listener& listener = {}) {
  return train(small_config(), data(), {.path = path, .resume = resume}, listener, catalogue());
}

// metrics.jsonl without the time it took.
std::string metrics(const std::string& path) {
  std::istringstream lines(read_text_file(fs::path(path) / "metrics.jsonl"));
  std::string text;
  for (std::string line; std::getline(lines, line);) {
    auto object = nlohmann::json::parse(line);
    object.erase("tokens_per_second");
    object.erase("seconds");
    text += object.dump() + "\n";
  }
  return text;
}

// Dies as by a power cut once it has logged a step past `stop`.
void train_until_killed(const std::string& path, int64_t stop) {
  Listener listener;
  listener.progress = [&](const Progress& progress) {
    if (progress.step > stop) std::raise(SIGKILL);
  };
  train_in(path, fs::exists(fs::path(path) / "config.json"), listener);
}

TEST(SecondModel, KilledAndResumedItIsBitForBitTheRunThatWasNot) {
  // A death test starts the program anew: the folder's name goes to it in the environment.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const TemporaryFolder folder;
  setenv("GEORES_SECOND_MODEL_TEST", folder.path().c_str(), /*overwrite=*/0);
  const fs::path root = getenv("GEORES_SECOND_MODEL_TEST");
  const auto whole = (root / "whole").string(), killed = (root / "killed").string();
  for (const int64_t stop : {3, 15, 30})
    EXPECT_EXIT(train_until_killed(killed, stop), testing::KilledBySignal(SIGKILL), "");
  train_in(killed, /*resume=*/true);
  train_in(whole);
  EXPECT_EQ(read_file(fs::path(whole) / "checkpoint.safetensors"),
            read_file(fs::path(killed) / "checkpoint.safetensors"));
  EXPECT_EQ(read_file(fs::path(whole) / "best.safetensors"),
            read_file(fs::path(killed) / "best.safetensors"));
  EXPECT_EQ(metrics(whole), metrics(killed));

  const auto file = Safetensors::load(fs::path(whole) / "checkpoint.safetensors");
  EXPECT_TRUE((to_tensor(file.at("carry/steps")) == 40).all().item<bool>());
  EXPECT_GT(to_tensor(file.at("carry/hidden")).norm().item<double>(), 0);
  unsetenv("GEORES_SECOND_MODEL_TEST");
}

TEST(SecondModel, LearnsAndIsMeasuredByItsOwnMeter) {
  const TemporaryFolder folder;
  const auto path = (folder.path() / "run").string();
  const auto result = train_in(path);
  std::istringstream lines(metrics(path));
  std::vector<double> norms, validation;
  for (std::string line; std::getline(lines, line);) {
    const auto object = nlohmann::json::parse(line);
    EXPECT_FALSE(object.contains("gamma")) << "it has no gate";
    if (object.contains("hidden_norm")) norms.push_back(object["hidden_norm"]);
    if (object.contains("validation")) validation.push_back(object["validation"]);
  }
  ASSERT_EQ(norms.size(), 5u) << "four evaluations, and one after the last step";
  ASSERT_EQ(validation.size(), 5u);
  EXPECT_EQ(norms.front(), 0) << "nothing is carried before the first step";
  EXPECT_GT(norms.back(), 0);
  EXPECT_LT(result.best_validation, 0.5 * validation.front());
  EXPECT_EQ(result.exact_best,
            exact_loss(*load_run(path, "", catalogue()).model, data().validation_x,
                       data().validation_y, small_config().batch));
}

TEST(SecondModel, MicroBatchesHaveTheirOwnPartOfTheCarry) {
  const auto gradients_and_carry = [&](int64_t parts) {
    const auto model = with_seed(3, [] {
      return make_model(small_config().model, input_shape(data()), catalogue().models);
    });
    model->to(torch::kFloat64);
    TrainingStep training(*model, {.clip = 0}, model->initial_carry(4));
    for (int64_t step = 0; step < 3; ++step) {
      const auto at = [&](const Tensor& all) {
        return all.slice(0, 4 * step, 4 * step + 4).to(torch::kFloat64);
      };
      training.run(at(data().train_x), at(data().train_y), 0.0, parts);
    }
    return torch::cat({training.parameters().gradients().flatten(),
                       training.carry().at("hidden").flatten(),
                       training.carry().at("steps").to(torch::kFloat64)});
  };
  const auto whole = gradients_and_carry(1), parts = gradients_and_carry(2);
  EXPECT_LT((whole - parts).abs().max().item<double>(), 1e-12);
  EXPECT_GT(whole.abs().max().item<double>(), 1e-3);
}

// The loop of a GPU, here on a CPU: the carry stays where it is and goes on from step to step.
TEST(SecondModel, TheDeviceLoopCarriesAsTheHostDoes) {
  auto config = small_config();
  const auto make = [&] {
    return with_seed(3, [&] {
      auto model = make_model(config.model, input_shape(data()), catalogue().models);
      model->to(torch::kFloat64);
      return model;
    });
  };
  const auto host_model = make(), device_model = make();
  TrainingStep host(*host_model, {}, host_model->initial_carry(config.batch)),
      device(*device_model, {}, device_model->initial_carry(config.batch));
  const auto doubles = [](const Tensor& values) { return values.to(torch::kFloat64); };
  const DeviceData there{doubles(data().train_x), doubles(data().train_y),
                         doubles(data().validation_x), doubles(data().validation_y)};
  const BatchSampler sampler(1, data().train_x.size(0));
  const auto batch_of = [&](int64_t step) {
    return LoopBatch{.rows = sampler.indices(0, step, config.batch), .terms = {}};
  };
  DeviceLoop loop(*device_model, device, config, there, batch_of, 0);
  const Schedule schedule{
      .peak = config.lr, .floor = config.min_lr, .warmup = config.warmup, .total = config.steps};
  for (int64_t step = 0; step < 10; ++step) {
    const auto [x, y] = rows_of(there.train_x, there.train_y, batch_of(step).rows);
    host.run(x, y, schedule.at(step));
    loop.step();
  }
  for (const auto* name : {"hidden", "steps"}) {
    const auto &ours = device.carry().at(name), &wanted = host.carry().at(name);
    EXPECT_LT((ours - wanted).abs().max().item<double>(), 1e-12) << name;
    EXPECT_GT(wanted.abs().max().item<double>(), 0) << name;
  }
  const std::vector<std::vector<int64_t>> drawn = {{0, 1, 2, 3}, {3, 2, 2, 0}};
  EXPECT_NEAR(loop.evaluate(drawn),
              loss_over_batches(*device_model, there.validation_x, there.validation_y, drawn),
              1e-12);
}

TEST(SecondModel, IsInspectedAsAnyModel) {
  const TemporaryFolder folder;
  const auto path = (folder.path() / "run").string();
  train_in(path);
  const auto run = load_run(path, "", catalogue());
  EXPECT_EQ(run.config.model.label(catalogue().models), "recurrent");
  const auto inspection = inspect(*run.model, data().validation_x.slice(0, 0, 4));
  EXPECT_EQ(inspection.connection, "additive");
  ASSERT_EQ(inspection.operators.size(), 3u);
  EXPECT_EQ(inspection.operators[2].name, "cell 2");
  EXPECT_EQ(inspection.blocks, 2) << "cells 0 and 1, cell 2";
  EXPECT_EQ(inspection.layers.size(), 2u);
  EXPECT_NEAR(inspection.composite->norm.mean, 1, 1e-12);
  EXPECT_GT(*inspection.operators[0].branch_variance, 0);
  EXPECT_NE(inspection.to_table().find("cell 1"), std::string::npos);
}

TEST(SecondModel, RefusesWhatItDoesNotHave) {
  const auto model = make_model(small_config().model, input_shape(data()), catalogue().models);
  EXPECT_EQ(refusal([&] { model->decoder(1); }),
            "[model] this kind of model cannot read one position at a time");
  auto config = small_config();
  config.checkpoint = "blocks";
  EXPECT_EQ(refusal([&] { train(config, data(), {}, {}, catalogue()); }),
            "[model] checkpoint = blocks: this kind of model has no blocks to recompute");
  EXPECT_EQ(refusal([&] {
              TrainConfig().read({{"model", "recurrent"}, {"layers", 2}}, "x", catalogue().models);
            }),
            "[x] unknown key 'layers'");
  EXPECT_EQ(refusal([&] {
              TrainConfig().read({{"model", "recurrent"}}, "x");
            }),
            "[model] unknown connection 'recurrent'; see `geores list`");
}

}  // namespace
}  // namespace geores
