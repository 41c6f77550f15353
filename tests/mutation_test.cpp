// Damaged files of every kind: each is read correctly or refused in one line, never with a
// crash, a hang, or a wrong result. The damage is the same in every run.
//   GEORES_MUTATIONS=10000 build/release/tests/test_whole --gtest_filter="*Mutations.*"
// files of each kind; 150 by default. scripts/mutate does it under sanitizers.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <sstream>

#include "geores/base/file.h"
#include "geores/base/formats/npy.h"
#include "geores/storage/state_file.h"
#include "geores/testing/testing.h"
#include "geores/train/run/finished_run.h"
#include "geores/train/trainer.h"
#include "lab/experiments/runner.h"
#include "lab/reference/verify.h"

namespace geores {
namespace {

namespace fs = std::filesystem;

int mutations() {
  const auto* given = std::getenv("GEORES_MUTATIONS");
  return given == nullptr ? 150 : std::max(1, std::atoi(given));
}

// Calls read(damaged text) for each mutation; a file that takes longer than a minute is a hang and
// ends the program.
template <class Read>
void for_each_mutation(const std::string& valid, std::size_t header, Read&& read) {
  std::mt19937_64 random(valid.size());
  int accepted = 0;
  for (int i = 0; i < mutations(); ++i) {
    const auto damaged = mutate(valid, header, random);
    ::alarm(60);
    const auto text = refusal([&] { read(damaged); });
    ::alarm(0);
    if (testing::Test::HasFailure()) {
      ADD_FAILURE() << "mutation " << i;
      return;
    }
    accepted += text.empty() ? 1 : 0;
  }
  std::cout << accepted << " of " << mutations() << " were read\n";
  EXPECT_LT(accepted, mutations()) << "nothing was damaged";
}

// Without a flush to the disk: thousands of files.
void write_plainly(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

// The largest difference between equal tensors of two files, relative to the largest value; infinite
// if they do not hold the same tensors.
double difference(const Safetensors& a, const Safetensors& b) {
  if (std::set(a.names().begin(), a.names().end()) != std::set(b.names().begin(), b.names().end()))
    return INFINITY;
  double worst = 0;
  for (const auto& name : a.names()) {
    if (a.at(name).shape != b.at(name).shape || a.at(name).dtype != b.at(name).dtype)
      return INFINITY;
    const auto x = to_tensor(a.at(name)).to(torch::kFloat64),
               y = to_tensor(b.at(name)).to(torch::kFloat64);
    if (x.numel() == 0) continue;
    const auto largest = x.abs().max().item<double>();
    const auto distance = (x - y).abs().max().item<double>() / (largest > 0 ? largest : 1);
    if (!(distance <= worst)) worst = std::isnan(distance) ? INFINITY : distance;
  }
  return worst;
}

TEST(Mutations, ADumpThatIsNotTheReferenceIsNotCalledEqual) {
  const auto path = GEORES_GOLDEN_DIR "/jpmhc.safetensors";
  const auto original = Safetensors::load(path);
  const auto text = to_text(read_file(path));
  uint64_t header = 0;
  std::memcpy(&header, text.data(), sizeof header);
  for_each_mutation(text, 8 + header, [&](const std::string& damaged) {
    const auto file = Safetensors::parse(to_bytes(damaged), "dump");
    if (verify_dump(file, "dump").passed()) {
      EXPECT_LT(difference(original, file), 1e-4);
    }
  });
}

TEST(Mutations, OfArrays) {
  NpyArray array{.dtype = Dtype::f32, .shape = {3, 5, 2}, .bytes = {}};
  for (int i = 0; i < 120; ++i) array.bytes.push_back(static_cast<std::byte>(i));
  const auto text = to_text(serialize_npy(array));
  const auto data = text.substr(text.size() - array.bytes.size());
  for_each_mutation(text, text.size() - data.size(), [&](const std::string& damaged) {
    const auto found = parse_npy(to_bytes(damaged), "x.npy");
    const auto again = parse_npy(serialize_npy(found), "again");
    EXPECT_TRUE(again.shape == found.shape && again.bytes == found.bytes);
    if (found.dtype == array.dtype && found.shape == array.shape && found.bytes == array.bytes) {
      EXPECT_NE(damaged.find(data), damaged.npos);
    }
  });
}

TEST(Mutations, OfConfigurations) {
  TrainConfig config;
  config.read({{"model", "edelta"}, {"task", "near_pi"}, {"steps", 20}}, "config");
  const auto all = config.write();
  const auto text = all.dump(2) + "\n";
  for_each_mutation(text, text.size(), [&](const std::string& damaged) {
    const auto given = parse_json(damaged, "config.json");
    TrainConfig found;
    found.read(given, "config.json");
    const auto written = found.write();
    TrainConfig again;
    again.read(written, "again");
    EXPECT_EQ(again.write(), written);
    if (written == all)
      for (const auto& [key, value] : given.items()) {
        EXPECT_EQ(all.value(key, nlohmann::json()), value) << key;
      }
  });
}

class RunMutations : public testing::Test {
 protected:
  RunMutations() {
    torch::manual_seed(5);
    data_.train_x = data_.train_y = torch::randn({4, 3, 2});
    data_.validation_x = data_.validation_y = torch::randn({2, 3, 2});
    config_.model.options = {{"connection", "additive"}, {"layers", 1}, {"width", 4}, {"heads", 1}};
    config_.steps = 6;
    config_.batch = 2;
    config_.eval_interval = 2;
    config_.eval_batches = config_.final_eval_batches = config_.log_interval = 1;
    train(config_, data_, {.path = run_.string()});
  }

  const TemporaryFolder temporary_;
  const fs::path run_ = temporary_.path() / "run";
  Dataset data_;
  TrainConfig config_;
};

TEST_F(RunMutations, OfCheckpoints) {
  // Another name for the checksum: with it, nearly all damage would be found there and nowhere else.
  auto text = to_text(read_file(run_ / "checkpoint.safetensors"));
  const std::string key = "geores_xxh3", other = "other_xxh3_";
  ASSERT_NE(text.find(key), text.npos);
  text.replace(text.find(key), key.size(), other);
  uint64_t header = 0;
  std::memcpy(&header, text.data(), sizeof header);
  const auto model = make_model(config_.model, input_shape(data_));
  TrainingStep training(*model, {});
  const auto folder = temporary_.path() / "damaged";
  fs::create_directory(folder);
  for_each_mutation(text, 8 + header, [&](const std::string& damaged) {
    write_plainly(folder / "checkpoint.safetensors", damaged);
    RunPosition position;
    ASSERT_EQ(load_checkpoint(folder.string(), *model, training, position, {}),
              FoundCheckpoint::newest);
    EXPECT_TRUE(is_finite(training));
    EXPECT_GE(position.step, 0);
    EXPECT_LE(position.best_step, position.step);
    // Everything in the file was read.
    const auto file = Safetensors::parse(to_bytes(damaged), "checkpoint");
    for (const auto& [name, value] : model->named_parameters().pairs())
      EXPECT_TRUE(torch::equal(value, to_tensor(file.at("model/" + name)))) << name;
    EXPECT_TRUE(torch::equal(training.optimizer().second_moment(),
                             to_tensor(file.at("optimizer/second_moment"))));
    EXPECT_EQ(position.step, to_tensor(file.at("position"))[0].item<int64_t>());
  });
}

TEST_F(RunMutations, OfMetrics) {
  const auto text = read_text_file(run_ / "metrics.jsonl");
  const auto path = run_ / "metrics.jsonl";
  for_each_mutation(text, text.size(), [&](const std::string& damaged) {
    write_plainly(path, damaged);
    std::set<std::string> given;
    std::istringstream lines(damaged);
    for (std::string line; std::getline(lines, line);) given.insert(line);

    MetricsLog log(path.string(), 4);
    log.write({{"step", 4}, {"loss", 1.5}});
    std::istringstream kept(read_text_file(path));
    std::string last;
    for (std::string line; std::getline(kept, line); last = line) {
      const auto object = nlohmann::json::parse(line, nullptr, false);
      ASSERT_TRUE(object.is_object()) << line;
      ASSERT_TRUE(object.at("step").is_number_integer()) << line;
      EXPECT_LE(object.at("step").get<int64_t>(), 4) << line;
    }
    EXPECT_EQ(last, R"({"loss":1.5,"step":4})");
    EXPECT_FALSE(given.empty() && last.empty());

    write_plainly(path, damaged);
    read_metrics(run_.string());  // strict: refuses lines that a resumed run drops
  });
}

}  // namespace
}  // namespace geores
