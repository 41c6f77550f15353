#include "geores/train/run/train_config.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "geores/base/file.h"
#include "geores/data/registry.h"
#include "geores/model/registry.h"
#include "geores/testing/testing.h"
#include "geores/train/run/run_folder.h"

namespace geores {
namespace {

// Options that a run's config.json lacks did not exist when it was written.
TEST(RunConfig, AnEarlierRunKeepsItsMeaning) {
  const auto read = [](nlohmann::json config) {
    const TemporaryFolder folder;
    write_file_atomically(folder.path() / "config.json", config.dump());
    return read_run_config(folder.path().string()).write();
  };
  const auto mhc = read({{"model", "mhc"}, {"sinkhorn_iterations", 7}});
  EXPECT_EQ(mhc["sinkhorn_iterations"], 7);
  EXPECT_EQ(mhc["sinkhorn_order"], "columns_last");
  EXPECT_EQ(mhc["logit_bound"], 10.0);
  EXPECT_EQ(mhc["norm_epsilon"], 1e-6);
  EXPECT_EQ(mhc["decay_static"], true);
  EXPECT_EQ(mhc["form"], "paper");
  EXPECT_EQ(read({{"model", "hc"}})["form"], "sigmoid");
  EXPECT_EQ(read({{"model", "hc"}, {"form", "original"}})["form"], "original");
  EXPECT_EQ(read({{"model", "shc"}})["fixed_amplitude"], false);
  EXPECT_EQ(read({{"model", "mhc_lite"}})["decay_static"], false);

  TrainConfig now;  // a new run
  now.read({{"model", "mhc"}}, "test");
  EXPECT_EQ(now.write()["sinkhorn_order"], "rows_last");
  EXPECT_EQ(now.write()["logit_bound"], 0.0);
  EXPECT_EQ(read(now.write()), now.write());
}

TEST(TrainConfig, ReadsFlatKeysOfTheRunTheTaskAndTheModel) {
  TrainConfig config;
  config.read({{"connection", "edelta"},
               {"lr", 0.5},
               {"gate_bias", 0.25},
               {"task", "near_pi"},
               {"theta", 2.5}},
              "test");
  EXPECT_EQ(config.lr, 0.5);
  EXPECT_EQ(config.task.name, "near_pi");
  EXPECT_EQ(config.task.options["theta"], 2.5);
  EXPECT_EQ(config.model.options["gate_bias"], 0.25);
  const auto written = config.write();
  EXPECT_EQ(written["model"], "transformer");
  EXPECT_EQ(written["length"], 128) << "defaults of the task";
  EXPECT_EQ(written["width"], 128) << "of the model";
  EXPECT_EQ(written["gate"], "plain") << "and of the connection";
  TrainConfig again;
  again.read(written, "test");
  EXPECT_EQ(again.write(), written);
  EXPECT_EQ(config.model.label(), "edelta");

  const auto refused = [](const nlohmann::json& object) {
    return refusal([&] { TrainConfig().read(object, "run.json"); });
  };
  EXPECT_EQ(refused({{"gatebias", 1.0}}),
            "[run.json] unknown key 'gatebias', did you mean 'gate_bias'?");
  EXPECT_EQ(refused({{"model", "mgt"}, {"stpes", 5}}),
            "[run.json] unknown key 'stpes', did you mean 'steps'?");
  EXPECT_EQ(refused({{"model", "mgt"}, {"gate_bias", 1.0}}),
            "[run.json] 'gate_bias' is not an option of model mgt");
  EXPECT_EQ(refused({{"theta", 1.0}}), "[run.json] 'theta' is not an option of task gyroscope");
  EXPECT_EQ(refused({{"length", 1}}), "[run.json] 'length' must be >= 2, got 1");
  EXPECT_EQ(refused({{"model", "edleta"}}),
            "[model] unknown connection 'edleta', did you mean 'edelta'?");
  EXPECT_EQ(refused({{"model", "mgt"}, {"connection", "edelta"}}),
            "[run.json] 'model' mgt and 'connection' \"edelta\" contradict each other");
  EXPECT_EQ(refused({{"task", "near_py"}}),
            "[task] unknown task 'near_py', did you mean 'near_pi'?");
  EXPECT_EQ(refused(nlohmann::json::array()),
            "[run.json] a configuration is a JSON object, got array");
}

// The format in which "model" was the connection and 0 a task's default.
TEST(TrainConfig, ReadsTheConfigurationOfAnOldRun) {
  const auto old = nlohmann::json::parse(R"({
    "accumulate": 1, "batch": 64, "checkpoint_blocks": true, "checkpoint_interval": 100,
    "clip": 1.0, "data": "", "data_seed": 42, "device": "cpu", "eval_batches": 40,
    "eval_interval": 100, "final_eval_batches": 100, "gate": "entropy", "heads": 4, "layers": 6,
    "length": 0, "log_interval": 10, "lr": 0.001, "min_lr": 0.0001, "model": "edelta",
    "precision": "fp32", "seed": 42, "steps": 2000, "streams": 4, "task": "near_pi",
    "theta": 0.0, "train_sequences": 0, "validation_sequences": 7, "vocabulary": 0,
    "warmup": 100, "weight_decay": 0.1, "width": 128})");
  TrainConfig config;
  config.read(old, "config.json");
  EXPECT_EQ(config.model.kind, "transformer");
  EXPECT_EQ(config.model.label(), "edelta");
  const auto now = config.write();
  EXPECT_EQ(now["connection"], "edelta");
  EXPECT_EQ(now["gate"], "entropy");
  EXPECT_EQ(now["theta"], 3.1);
  EXPECT_EQ(now["train_sequences"], 1000);
  EXPECT_EQ(now["validation_sequences"], 7);
  EXPECT_FALSE(now.contains("vocabulary"));
  EXPECT_EQ(now["checkpoint"], "blocks");
  EXPECT_FALSE(now.contains("checkpoint_blocks"));
  EXPECT_FALSE(now.contains("data"));
  EXPECT_EQ(now["positions"], "learned");
  EXPECT_EQ(now["mlp"], "gelu");
}

TEST(TrainConfig, ReadsTheTextsOfACommandLine) {
  TrainConfig config;
  config.read_texts({{"model", "ddl_pooled"},
                     {"pool", "causal"},
                     {"task", "copy"},
                     {"vocabulary", "5"},
                     {"length", "0"},
                     {"lr", "0.5"},
                     {"mlp", "swiglu"}},
                    "train");
  const auto now = config.write();
  EXPECT_EQ(now["connection"], "ddl_pooled");
  EXPECT_EQ(now["pool"], "causal");
  EXPECT_EQ(now["vocabulary"], 5);
  EXPECT_EQ(now["length"], 64) << "0 is the default, as it always was";
  EXPECT_EQ(now["lr"], 0.5);
  EXPECT_EQ(now["mlp"], "swiglu");
  const auto refused = [](const std::map<std::string, std::string>& given) {
    return refusal([&] { TrainConfig().read_texts(given, "train"); });
  };
  EXPECT_EQ(refused({{"steps", "many"}}), "[train] 'steps' must be a 64-bit integer, got 'many'");
  EXPECT_EQ(refused({{"theta", "3"}}), "[train] 'theta' is not an option of task gyroscope");
}

// Each key of a flat object has one meaning.
TEST(TrainConfig, NoKeyBelongsToTwoOwners) {
  std::set<std::string> training = {"task", "model"}, of_tasks, of_models;
  for (const auto& key : OptionSet::of<TrainConfig>().keys()) training.insert(key);
  for (const auto& task : tasks())
    for (const auto& key : task.options.keys()) of_tasks.insert(key);
  for (const auto& kind : model_kinds())
    for (const auto& key : kind.all_options().keys()) of_models.insert(key);
  for (const auto& key : of_tasks)
    EXPECT_FALSE(training.contains(key) || of_models.contains(key)) << key;
  for (const auto& key : of_models) EXPECT_FALSE(training.contains(key)) << key;
}

}  // namespace
}  // namespace geores
