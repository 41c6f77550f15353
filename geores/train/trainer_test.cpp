#include "geores/train/trainer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <sstream>

#include "geores/base/error.h"
#include "geores/base/file.h"
#include "geores/modules/seeding.h"
#include "geores/ops/training/loss.h"
#include "geores/testing/testing.h"
#include "geores/train/device/device_loop.h"
#include "geores/train/evaluation.h"
#include "geores/train/optimizer/schedule.h"
#include "geores/train/run/made_with.h"
#include "geores/train/small_run_test.h"

namespace geores {
namespace {

namespace fs = std::filesystem;

struct Interruption {};

class Training : public testing::Test {
 protected:
  std::string folder(const std::string& name) const { return (root_ / name).string(); }

  // metrics.jsonl without the timings, which differ between equal runs.
  std::string metrics(const std::string& name) const {
    std::istringstream lines(read_text_file(root_ / name / "metrics.jsonl"));
    std::string text;
    for (std::string line; std::getline(lines, line);) {
      auto object = nlohmann::json::parse(line);
      object.erase("tokens_per_second");
      object.erase("seconds");
      text += object.dump() + "\n";
    }
    return text;
  }

  std::vector<std::byte> weights(const std::string& name) const {
    return read_file(root_ / name / "checkpoint.safetensors");
  }

  // One uninterrupted run, and one stopped and resumed.
  void expect_resumed_bit_for_bit(const TrainConfig& config) const {
    train(config, data_, {.path = folder("whole")});
    Listener listener;
    listener.progress = [&](const Progress& progress) {
      if (progress.step > 17) throw Interruption();
    };
    EXPECT_THROW(train(config, data_, {.path = folder("broken")}, listener), Interruption);
    train(config, data_, {.path = folder("broken"), .resume = true});
    EXPECT_EQ(weights("whole"), weights("broken"));
  }

  std::string refusal(const TrainConfig& config, const RunFolder& run) const {
    try {
      train(config, data_, run);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

  const TemporaryFolder temporary_;
  const fs::path root_ = temporary_.path();
  Dataset data_ = small_dataset();
};

TEST_F(Training, InterruptedAndResumedIsBitForBitTheUninterruptedRun) {
  for (const auto* model : {"edelta", "mhc", "additive"}) {
    auto config = small_config(model);
    const std::string whole = std::string("whole-") + model,
                      broken = std::string("broken-") + model;
    train(config, data_, {.path = folder(whole)});
    // Interrupted after the first log line past each of these steps, and resumed every time.
    bool resume = false;
    for (const int64_t stop : {1, 7, 8, 19, 28}) {
      Listener listener;
      listener.progress = [&](const Progress& progress) {
        if (progress.step > stop) throw Interruption();
      };
      EXPECT_THROW(train(config, data_, {.path = folder(broken), .resume = resume}, listener),
                   Interruption);
      resume = true;
    }
    train(config, data_, {.path = folder(broken), .resume = true});
    EXPECT_EQ(weights(whole), weights(broken)) << model;
    EXPECT_EQ(metrics(whole), metrics(broken)) << model;
    EXPECT_EQ(read_file(root_ / whole / "best.safetensors"),
              read_file(root_ / broken / "best.safetensors"));
  }
}

// Killed after the last checkpoint, when only the final evaluation was missing.
TEST_F(Training, ResumedAtTheVeryEndTheResultIsTheSame) {
  const auto data = small_dataset();
  const auto config = small_config();
  const auto without_time = [](const std::string& run) {
    auto result = nlohmann::json::parse(read_text_file(fs::path(run) / "result.json"));
    result.erase("seconds");
    return result;
  };
  train(config, data, {.path = folder("run")});
  const auto before = without_time(folder("run"));
  fs::remove(fs::path(folder("run")) / "result.json");
  train(config, data, {.path = folder("run"), .resume = true});
  EXPECT_EQ(without_time(folder("run")), before);
}

// The time of earlier legs counts, and the last validation loss is known before the next
// evaluation.
TEST_F(Training, TimeAndValidationGoOnAfterAResume) {
  const auto config = small_config("additive");
  double validation = -1, seconds = 0;
  Listener stop;
  stop.progress = [&](const Progress& progress) {
    validation = progress.validation;
    seconds = progress.seconds;
    if (progress.step > 20) throw Interruption();
  };
  EXPECT_THROW(train(config, data_, {.path = folder("run")}, stop), Interruption);
  // As if the first leg had taken an hour.
  const auto path = root_ / "run" / "metrics.jsonl";
  std::istringstream lines(read_text_file(path));
  std::string text;
  for (std::string line; std::getline(lines, line);) {
    auto object = nlohmann::json::parse(line);
    if (object.contains("seconds")) object["seconds"] = object["seconds"].get<double>() + 3600;
    text += object.dump() + "\n";
  }
  write_file_atomically(path, text);

  bool first = true;
  Listener listener;
  listener.progress = [&](const Progress& progress) {
    if (first) {
      EXPECT_EQ(progress.validation, validation);
    }
    first = false;
    EXPECT_GT(progress.seconds, 3600 + 0.5 * seconds);
  };
  const auto result = train(config, data_, {.path = folder("run"), .resume = true}, listener);
  EXPECT_FALSE(first);
  EXPECT_GT(result.seconds, 3600);
  std::istringstream all(read_text_file(path));
  for (std::string line; std::getline(all, line);) {
    const auto object = nlohmann::json::parse(line);
    if (object.contains("tokens_per_second") && object["step"] > 20) {
      EXPECT_GT(object["tokens_per_second"].get<double>(), 100) << "of the second leg alone";
    }
  }
}

TEST_F(Training, MemoryOnlyRunKeepsTheBestOfManifoldParametersToo) {
  auto config = small_config("jpmhc");
  config.model.options["mixer"] = "grassmann";
  config.lr = config.min_lr = 1.0;  // the best evaluation is an early one
  config.warmup = 0;
  const auto with_files = train(config, data_, {.path = folder("run")});
  const auto without = train(config, data_, {});
  EXPECT_LT(with_files.best_step, config.steps - config.eval_interval);
  EXPECT_EQ(with_files.exact_best, without.exact_best);
}

TEST_F(Training, GrassmannStateIsResumedToo) {
  auto config = small_config("jpmhc");
  config.model.options["mixer"] = "grassmann";
  expect_resumed_bit_for_bit(config);
}

// Their names and values are in config.json and in the checkpoint.
TEST_F(Training, SharesOfThePastAreResumedToo) {
  auto config = small_config("additive");
  config.model.options["past"] = "both";
  config.model.options["past_gain"] = 10;
  expect_resumed_bit_for_bit(config);
  const auto loaded = load_run(folder("broken"));
  EXPECT_EQ(loaded.config.model.options.at("past"), "both");
  EXPECT_EQ(loaded.config.model.options.at("past_gain"), 10);
  EXPECT_GT(loaded.model->named_parameters()["past.mean"].abs().max().item<double>(), 0.0);
}

// The map is not a parameter; the norm shares are.
TEST_F(Training, AnIsometryAndKeptLengthsAreResumedToo) {
  auto config = small_config("additive");
  config.model.options["input_map"] = "isometry";
  config.model.options["output_length"] = "learned";
  expect_resumed_bit_for_bit(config);
  const auto loaded = load_run(folder("broken"));
  EXPECT_EQ(loaded.config.model.options.at("input_map"), "isometry");
  EXPECT_EQ(loaded.config.model.options.at("output_length"), "learned");
  EXPECT_GT(loaded.model->named_parameters()["kept_length"].abs().max().item<double>(), 0.0);
}

TEST_F(Training, BatchesDoNotDependOnHowOftenOneEvaluates) {
  auto config = small_config();
  train(config, data_, {.path = folder("often")});
  config.eval_interval = 30;
  config.eval_batches = 5;
  train(config, data_, {.path = folder("seldom")});
  const auto losses = [&](const std::string& name) {
    std::vector<double> all;
    std::istringstream lines(metrics(name));
    for (std::string line; std::getline(lines, line);)
      if (const auto object = nlohmann::json::parse(line); object.contains("loss"))
        all.push_back(object["loss"]);
    return all;
  };
  EXPECT_EQ(losses("often"), losses("seldom"));
}

TEST_F(Training, LearnsAndReportsWhatItMeasured) {
  auto config = small_config("additive");
  config.steps = 150;
  const auto result = train(config, data_, {.path = folder("run")});
  EXPECT_EQ(result.steps, 150);
  EXPECT_FALSE(result.diverged);
  EXPECT_LT(result.exact_validation, 0.5 * data_.validation_y.square().mean().item<double>());
  const auto json = nlohmann::json::parse(read_text_file(root_ / "run" / "result.json"));
  EXPECT_EQ(json["best_validation"].get<double>(), result.best_validation);
  const auto made = made_with("cpu");
  for (const auto* key : {"machine", "program"}) EXPECT_EQ(json.at(key), made.at(key));

  const auto model = make_model(config.model, input_shape(data_));
  EXPECT_EQ(result.parameters, parameter_count(*model));
}

TEST_F(Training, ErrorsByPositionHaveTheExactLossAsTheirMean) {
  const auto model = make_model(small_config("additive").model, input_shape(data_));
  const auto& x = data_.validation_x;
  auto y = data_.validation_y.clone();
  y.select(1, 2) += 5.0;  // the third position has a large error
  const auto errors = errors_by_position(*model, x, y, 3);
  ASSERT_EQ(errors.size(), 6U);
  EXPECT_NEAR(std::accumulate(errors.begin(), errors.end(), 0.0) / 6, exact_loss(*model, x, y),
              1e-5);
  EXPECT_EQ(std::ranges::max_element(errors) - errors.begin(), 2);
}

TEST_F(Training, InBfloat16LearnsAsWellOnACpu) {
  for (const auto* model : {"additive", "edelta"}) {
    auto config = small_config(model);
    config.steps = 150;
    const auto full = train(config, data_, {});
    config.precision = "bf16";
    const auto half = train(config, data_, {});
    EXPECT_NE(half.exact_validation, full.exact_validation) << model << ": nothing was rounded";
    EXPECT_NEAR(half.exact_validation, full.exact_validation, 0.02 * full.exact_validation)
        << model;
  }
  auto config = small_config();
  config.precision = "tf32";
  EXPECT_EQ(refusal(config, {}),
            "[train] precision tf32 needs device cuda; a CPU trains in fp32 and bf16");
}

TEST_F(Training, MemoryOnlyRunGivesTheSameNumbers) {
  const auto config = small_config();
  const auto with_files = train(config, data_, {.path = folder("run")});
  const auto without = train(config, data_, {});
  EXPECT_EQ(with_files.best_validation, without.best_validation);
  EXPECT_EQ(with_files.exact_best, without.exact_best);
}

TEST_F(Training, AccumulationAndRecomputationChangeNothingButRounding) {
  auto config = small_config();
  config.steps = 12;
  const auto plain = train(config, data_, {});
  for (const auto* what : {"connections", "blocks"}) {
    config.checkpoint = what;
    EXPECT_EQ(train(config, data_, {}).exact_validation, plain.exact_validation) << what;
  }
  config.accumulate = 2;
  // The gate loss is a mean over the batch, so two halves average to the same.
  EXPECT_NEAR(train(config, data_, {}).exact_validation, plain.exact_validation,
              1e-4 * plain.exact_validation);
  config.accumulate = 3;
  EXPECT_EQ(refusal(config, {}), "[train] batch 4 is not divisible by accumulate 3");
}

TEST(Evaluation, TakesASequenceOnceAndGivesTheMeanOverTheBatches) {
  const std::vector<std::vector<int64_t>> drawn = {{4, 1, 4}, {0, 4, 3}, {1, 2, 2}};
  const auto mean_and_rows = [&](const Tensor& predictions, const Tensor& targets) {
    double mean = 0;
    size_t rows = 0;
    for (const auto& batch : evaluation_batches(drawn, !are_classes(targets))) {
      const auto at = torch::tensor(batch.rows, torch::kInt64);
      mean += weighted_task_loss(predictions.index_select(0, at), targets.index_select(0, at),
                                 torch::tensor(batch.weights, torch::kFloat64))
                  .item<double>();
      rows += batch.rows.size();
      EXPECT_LE(batch.rows.size(), 3u);
    }
    return std::pair(mean, rows);
  };
  const auto mean_as_drawn = [&](const Tensor& predictions, const Tensor& targets) {
    double mean = 0;
    for (const auto& rows : drawn) {
      const auto at = torch::tensor(rows, torch::kInt64);
      mean +=
          task_loss(predictions.index_select(0, at), targets.index_select(0, at)).item<double>() /
          static_cast<double>(drawn.size());
    }
    return mean;
  };
  const auto values = torch::randn({5, 7, 2}, torch::kFloat64), wanted = torch::randn_like(values);
  const auto [error, rows] = mean_and_rows(values, wanted);
  EXPECT_NEAR(error, mean_as_drawn(values, wanted), 1e-14);
  EXPECT_EQ(rows, 5u);

  auto tokens = torch::randint(0, 2, {5, 7}, torch::kInt64);
  tokens[2].slice(0, 0, 5).fill_(-1);  // fewer positions count in the batches that have this one
  const auto [entropy, all_rows] = mean_and_rows(values, tokens);
  EXPECT_NEAR(entropy, mean_as_drawn(values, tokens), 1e-14);
  EXPECT_EQ(all_rows, 9u);
}

TEST_F(Training, StopsAtANonFiniteLossAndKeepsTheLastCheckpoint) {
  auto config = small_config("additive");
  train(config, data_, {.path = folder("good")});
  auto poisoned = data_;
  poisoned.train_y = poisoned.train_y.clone();
  poisoned.train_y[3].fill_(std::numeric_limits<float>::infinity());
  std::string notice;
  Listener listener;
  listener.notice = [&](const std::string& text) { notice = text; };
  const auto result = train(config, poisoned, {.path = folder("bad")}, listener);
  EXPECT_TRUE(result.diverged);
  EXPECT_LT(result.steps, config.steps);
  EXPECT_NE(notice.find("stopped"), std::string::npos) << notice;
  const auto json = nlohmann::json::parse(read_text_file(root_ / "bad" / "result.json"));
  EXPECT_TRUE(json["diverged"].get<bool>());
  EXPECT_TRUE(json["final_validation"].is_null());
}

TEST_F(Training, DamagedCheckpointFallsBackToTheOneBeforeAndSaysSo) {
  const auto config = small_config();
  train(config, data_, {.path = folder("whole")});
  Listener stop;
  stop.progress = [&](const Progress& progress) {
    if (progress.step > 21) throw Interruption();
  };
  EXPECT_THROW(train(config, data_, {.path = folder("cut")}, stop), Interruption);
  const auto newest = root_ / "cut" / "checkpoint.safetensors";
  fs::resize_file(newest, fs::file_size(newest) / 2);

  std::string notice;
  Listener listener;
  listener.notice = [&](const std::string& text) { notice = text; };
  train(config, data_, {.path = folder("cut"), .resume = true}, listener);
  EXPECT_NE(notice.find("continuing from the checkpoint before it, at step 16"), std::string::npos)
      << notice;
  EXPECT_EQ(weights("whole"), weights("cut"));
  EXPECT_EQ(metrics("whole"), metrics("cut"));
}

TEST_F(Training, RefusesToMixRuns) {
  auto config = small_config("additive");
  config.steps = 4;
  train(config, data_, {.path = folder("run")});
  const auto before = weights("run");
  EXPECT_EQ(
      refusal(config, {.path = folder("run")}),
      fmt::format("[train] {} already holds a run; continue it with --resume or replace it with "
                  "--overwrite",
                  folder("run")));
  config.lr = 2e-3;
  EXPECT_EQ(refusal(config, {.path = folder("run"), .resume = true}),
            fmt::format("[train] cannot resume {} with another 'lr': the run has 0.001, asked for "
                        "0.002",
                        folder("run")));
  EXPECT_EQ(weights("run"), before);
  EXPECT_EQ(refusal(config, {.path = folder("none"), .resume = true}),
            fmt::format("[train] {} holds no run to resume", folder("none")));
  train(config, data_, {.path = folder("run"), .overwrite = true});
  EXPECT_NE(weights("run"), before);
}

}  // namespace
}  // namespace geores
