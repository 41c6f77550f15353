#include "geores/data/dataset.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <limits>
#include <map>

#include "geores/base/file.h"
#include "geores/base/formats/npy.h"
#include "geores/base/json.h"
#include "geores/data/baselines.h"
#include "geores/data/generated.h"
#include "geores/data/registry.h"
#include "geores/storage/state_file.h"
#include "geores/testing/testing.h"

namespace geores {
namespace {

namespace fs = std::filesystem;

const nlohmann::json& golden(const std::string& task) {
  static const auto all =
      parse_json(read_text_file(fs::path(GEORES_GOLDEN_DIR) / "datasets.json"), "datasets.json");
  static const std::map<std::string, std::string> names = {
      {"near_pi", "near_pi_rotation"}, {"near_pi_multi", "near_pi_rotation_multiplane"}};
  return all.at(names.contains(task) ? names.at(task) : task);
}

bool same(const Tensor& a, const Tensor& b) { return a.dtype() == b.dtype() && torch::equal(a, b); }

bool same(const Dataset& a, const Dataset& b) {
  return a.task == b.task && a.vocabulary == b.vocabulary && same(a.train_x, b.train_x) &&
         same(a.train_y, b.train_y) && same(a.validation_x, b.validation_x) &&
         same(a.validation_y, b.validation_y) &&
         a.validation_theta.defined() == b.validation_theta.defined() &&
         (!a.validation_theta.defined() || same(a.validation_theta, b.validation_theta));
}

std::string refusal_of(const TaskConfig& config) {
  return refusal([&] { load_dataset(config); });
}

// A few short sequences of every task.
TaskConfig small(const std::string& task) {
  TaskConfig config{task, {{"train_sequences", 6}, {"validation_sequences", 4}}};
  if (task != "reflection") config.options["length"] = 8;
  return config;
}

// All tasks that are drawn from a seed.
const std::vector<std::string>& generated() {
  static const auto names = [] {
    std::vector<std::string> found;
    for (const auto& task : tasks())
      if (task.options.has("data_seed")) found.push_back(task.name);
    return found;
  }();
  return names;
}

// ---- against the paper's data

class PaperData : public testing::TestWithParam<std::string> {
 protected:
  // Once per task, though GoogleTest goes through all tasks for each test.
  static const Dataset& data() {
    static std::map<std::string, Dataset> loaded;
    const auto found = loaded.find(GetParam());
    if (found != loaded.end()) return found->second;
    return loaded.emplace(GetParam(), load_dataset({GetParam()})).first->second;
  }
};

void expect_array(const Tensor& tensor, const nlohmann::json& expected, const std::string& name) {
  SCOPED_TRACE(name);
  ASSERT_EQ(tensor.sizes().vec(), expected.at("shape").get<std::vector<int64_t>>());
  ASSERT_EQ(tensor.scalar_type(), torch::kFloat32);
  EXPECT_TRUE(tensor.is_contiguous());
  const auto flat = tensor.flatten();
  const auto first = expected.at("first_8").get<std::vector<float>>();
  const auto last = expected.at("last_4").get<std::vector<float>>();
  EXPECT_LT((flat.slice(0, 0, 8) - torch::tensor(first)).abs().max().item<double>(), 1e-7);
  EXPECT_LT((flat.slice(0, -4) - torch::tensor(last)).abs().max().item<double>(), 1e-7);
  // The sums are in float64, so these two hold the data to far less than 1e-6 per number.
  const auto precise = flat.to(torch::kFloat64);
  EXPECT_NEAR(precise.mean().item<double>(), expected.at("mean").get<double>(), 1e-12);
  EXPECT_NEAR(precise.square().mean().item<double>(), expected.at("mean_square").get<double>(),
              1e-11);
}

TEST_P(PaperData, ArraysAreThePapersOwn) {
  const auto& expected = golden(GetParam());
  expect_array(data().train_x, expected.at("train_x"), "train_x");
  expect_array(data().train_y, expected.at("train_y"), "train_y");
  expect_array(data().validation_x, expected.at("val_x"), "val_x");
  expect_array(data().validation_y, expected.at("val_y"), "val_y");
}

TEST_P(PaperData, TrivialBaselinesAreThePapersNumbers) {
  const auto& expected = golden(GetParam()).at("trivial_val_mse");
  const std::map<std::string, std::string> names = {{"linear", "one_linear_map_fit_on_train"}};
  const auto baselines = trivial_baselines(data());
  ASSERT_EQ(baselines.size(), expected.size());
  for (const auto& [name, mse] : baselines) {
    const auto wanted = expected.at(names.contains(name) ? names.at(name) : name).get<double>();
    // Below 1e-12 there is only the rounding of the states to float32.
    EXPECT_NEAR(mse, wanted, wanted < 1e-12 ? 1e-3 * wanted : 1e-9 * wanted) << name;
  }
}

TEST_P(PaperData, TargetsAreTheInputsOneStepLater) {
  const auto steps = data().length() - 1;
  EXPECT_TRUE(torch::equal(data().train_x.narrow(1, 1, steps), data().train_y.narrow(1, 0, steps)));
  EXPECT_TRUE(torch::equal(data().validation_x.narrow(1, 1, steps),
                           data().validation_y.narrow(1, 0, steps)));
}

INSTANTIATE_TEST_SUITE_P(Tasks, PaperData,
                         testing::Values("gyroscope", "stability", "near_pi", "near_pi_multi"),
                         [](const auto& test) { return test.param; });

// ---- the tasks

TEST(Gyroscope, ThetaIsTheAngleBetweenStatesInTheirPlane) {
  const auto data = load_dataset({"gyroscope", {{"train_sequences", 9000}, {"length", 4}}});
  const auto& theta = data.validation_theta;
  ASSERT_EQ(theta.sizes().vec(), std::vector<int64_t>{1000});
  const auto first = golden("gyroscope").at("val_theta_first_4").get<std::vector<float>>();
  EXPECT_TRUE(torch::equal(theta.narrow(0, 0, 4), torch::tensor(first)));

  // The moving part of consecutive states: x_t+1 - x_t turns by θ as well.
  const auto step = data.validation_y - data.validation_x;
  const auto cosine = torch::cosine_similarity(step.select(1, 0), step.select(1, 1), 1);
  EXPECT_LT((cosine - theta.cos()).abs().max().item<double>(), 1e-4);
}

TEST(Gyroscope, HasSequencesInBothStrata) {
  const auto theta = load_dataset({"gyroscope", {{"length", 2}}}).validation_theta;
  EXPECT_NEAR((theta < 0.5).to(torch::kFloat64).mean().item<double>(), 0.4 / 2.4, 0.04);
  EXPECT_NEAR((theta > 1.5).to(torch::kFloat64).mean().item<double>(), 1.0 / 2.4, 0.04);
  EXPECT_FALSE(load_dataset(small("stability")).validation_theta.defined());
}

TEST(NearPi, ThetaSweepTurnsByThatAngle) {
  for (const double theta : {2.5, 2.8, 3.0, 3.1, 3.13, 3.14}) {
    auto config = small("near_pi");
    config.options["theta"] = theta;
    const auto single = load_dataset(config);
    const auto plane = [](const Tensor& x, int64_t p) { return x.slice(2, 2 * p, 2 * p + 2); };
    const auto angle_of = [&](const Dataset& data, int64_t p) {
      return torch::cosine_similarity(plane(data.train_x, p), plane(data.train_y, p), 2).acos();
    };
    EXPECT_LT((angle_of(single, 0) - theta).abs().max().item<double>(), 2e-3) << theta;
    EXPECT_TRUE(torch::equal(single.train_x.slice(2, 2), single.train_y.slice(2, 2)));

    config.name = "near_pi_multi";
    const auto multi = load_dataset(config);
    for (int64_t p = 0; p < 32; ++p)
      EXPECT_LT((angle_of(multi, p) - theta).abs().max().item<double>(), 2e-3) << theta;
  }
}

TEST(Reflection, TargetIsMinusTheInputAndTheInputIsStandardNormal) {
  const auto data = load_dataset({"reflection"});
  EXPECT_EQ(data.train_x.sizes().vec(), (std::vector<int64_t>{500, 1, 64}));
  EXPECT_EQ(data.validation_x.sizes().vec(), (std::vector<int64_t>{500, 1, 64}));
  EXPECT_TRUE(torch::equal(data.train_y, -data.train_x));
  EXPECT_TRUE(torch::equal(data.validation_y, -data.validation_x));
  EXPECT_NEAR(data.train_x.square().mean().item<double>(), 1.0, 0.03);
  EXPECT_FLOAT_EQ(data.train_x.flatten()[0].item<float>(), 0.4967141530112327f);  // seed 42
}

TEST(Reflection, ValidationDoesNotDependOnTheTrainSet) {
  const auto all = load_dataset({"reflection"});
  for (const int64_t count : {10, 25, 50, 100, 200}) {
    const auto some = load_dataset({"reflection", {{"train_sequences", count}, {"data_seed", 7}}});
    EXPECT_EQ(some.train_x.size(0), count);
    EXPECT_TRUE(torch::equal(some.validation_x, all.validation_x));
  }
}

TEST(Copy, SecondHalfRepeatsTheFirstAndOnlyItIsScored) {
  const auto data = load_dataset({"copy", {{"length", 16}, {"vocabulary", 5}}});
  EXPECT_TRUE(data.tokens());
  EXPECT_EQ(data.vocabulary, 5);
  EXPECT_EQ(data.input_width(), 1);
  EXPECT_EQ(data.train_x.sizes().vec(), (std::vector<int64_t>{9000, 15}));
  EXPECT_EQ(data.train_x.scalar_type(), torch::kInt64);
  EXPECT_EQ(data.train_x.min().item<int64_t>(), 0);
  EXPECT_EQ(data.train_x.max().item<int64_t>(), 4);
  for (const auto& [x, y] :
       {std::pair(data.train_x, data.train_y), std::pair(data.validation_x, data.validation_y)}) {
    EXPECT_TRUE(torch::equal(y.slice(1, 7), x.slice(1, 0, 8))) << "a_1 .. a_8";
    EXPECT_TRUE(torch::equal(x.slice(1, 8), x.slice(1, 0, 7))) << "the input shows them again";
    EXPECT_TRUE((y.slice(1, 0, 7) == -1).all().item<bool>());
  }
}

TEST(Copy, ShortestSequenceScoresItsOnlyTarget) {
  const auto data = load_dataset({"copy", {{"train_sequences", 3}, {"length", 2}}});
  EXPECT_TRUE(torch::equal(data.train_x, data.train_y));
  EXPECT_EQ(data.length(), 1);
}

TEST(Tasks, FewerSequencesAreTheFirstOfMore) {
  const std::map<std::string, bool> paper = {{"gyroscope", true},   {"stability", true},
                                             {"near_pi", false},    {"near_pi_multi", false},
                                             {"reflection", false}, {"copy", true}};
  for (const auto& known : paper)
    EXPECT_NE(std::ranges::find(generated(), known.first), generated().end()) << known.first;
  for (const auto& task : generated()) {
    auto config = small(task);
    const auto few = load_dataset(config);
    EXPECT_EQ(few.train_x.size(0), 6) << task;
    EXPECT_EQ(few.validation_x.size(0), 4) << task;
    config.options["train_sequences"] = 10;
    const auto more = load_dataset(config);
    EXPECT_TRUE(torch::equal(more.train_x.narrow(0, 0, 6), few.train_x)) << task;
    // One series of draws: validation goes on where train ended. Else it has a seed of its own.
    const bool one_series = torch::equal(more.train_x.narrow(0, 6, 4), few.validation_x);
    EXPECT_EQ(torch::equal(more.validation_x, few.validation_x), !one_series) << task;
    if (paper.contains(task)) {
      EXPECT_EQ(one_series, paper.at(task)) << task;
    }
  }
}

TEST(Tasks, SeedChangesTheData) {
  for (const auto& task : generated()) {
    auto config = small(task);
    const auto data = load_dataset(config);
    EXPECT_TRUE(same(load_dataset(config), data)) << task;
    config.options["data_seed"] = 43;
    EXPECT_FALSE(torch::equal(load_dataset(config).train_x, data.train_x)) << task;
  }
}

TEST(Tasks, OwnTheirOptionsAndDefaults) {
  const auto options = [](const std::string& task) {
    return TaskConfig{task}.completed().options.dump();
  };
  EXPECT_EQ(options("gyroscope"),
            R"({"data_seed":42,"length":256,"train_sequences":9000,"validation_sequences":1000})");
  EXPECT_EQ(options("stability"),
            R"({"data_seed":42,"length":128,"train_sequences":900,"validation_sequences":100})");
  EXPECT_EQ(options("near_pi"), R"({"data_seed":42,"length":128,"theta":3.1,)"
                                R"("train_sequences":1000,"validation_sequences":500})");
  EXPECT_EQ(options("near_pi_multi"), R"({"data_seed":42,"length":128,"theta":3.14,)"
                                      R"("train_sequences":1000,"validation_sequences":500})");
  EXPECT_EQ(options("reflection"),
            R"({"data_seed":42,"length":2,"train_sequences":500,"validation_sequences":500})");
  EXPECT_EQ(options("copy"), R"({"data_seed":42,"length":64,"train_sequences":9000,)"
                             R"("validation_sequences":1000,"vocabulary":32})");
  EXPECT_EQ(options("folder"), R"({"data":"","train_sequences":0,"validation_sequences":0})");
  for (const auto& task : tasks()) EXPECT_FALSE(task.summary.empty()) << task.name;
}

// Each token task chooses its unscored positions itself.
TEST(Tasks, ATokenTaskWithoutAMaskIsScoredEverywhere) {
  const auto draw = [](NumpyRandom& random, int64_t count) {
    Trajectories drawn(count, 6, 1);
    for (int64_t i = 0; i < 6 * count; ++i)
      drawn.values.push_back(static_cast<float>(random.randint(0, 9)));
    return drawn;
  };
  const auto data =
      load_generated({.task = "digits",
                      .options = nlohmann::json::object(),
                      .sizes = {.train_sequences = 3, .validation_sequences = 2, .length = 6},
                      .vocabulary = 9,
                      .draw = draw},
                     "");
  EXPECT_TRUE((data.train_y >= 0).all().item<bool>());
  EXPECT_TRUE(torch::equal(data.train_x.slice(1, 1), data.train_y.slice(1, 0, 4)));
}

// ---- refusals

TEST(Refusal, UnknownTaskOffersTheNearestName) {
  EXPECT_EQ(refusal_of({"gyrscope"}), "[task] unknown task 'gyrscope', did you mean 'gyroscope'?");
  EXPECT_EQ(refusal_of({"imagenet"}), "[task] unknown task 'imagenet'; see `geores list`");
  EXPECT_EQ(refusal_of({""}), "[task] unknown task ''; see `geores list`");
}

TEST(Refusal, OptionsOfOtherTasks) {
  EXPECT_EQ(refusal_of({"gyroscope", {{"theta", 3.1}}}), "[gyroscope] unknown option 'theta'");
  EXPECT_EQ(refusal_of({"stability", {{"vocabulary", 8}}}),
            "[stability] unknown option 'vocabulary'");
  EXPECT_EQ(refusal_of({"gyroscope", {{"data", "mine"}}}),
            "[gyroscope] unknown option 'data', did you mean 'data_seed'?");
  EXPECT_EQ(refusal_of({"folder", {{"data", "mine"}, {"length", 9}}}),
            "[folder] unknown option 'length'");
}

TEST(Refusal, ValuesOutOfRange) {
  EXPECT_EQ(refusal_of({"gyroscope", {{"train_sequences", -1}}}),
            "[gyroscope] 'train_sequences' must be >= 1, got -1");
  EXPECT_EQ(refusal_of({"gyroscope", {{"validation_sequences", -1}}}),
            "[gyroscope] 'validation_sequences' must be >= 1, got -1");
  EXPECT_EQ(refusal_of({"gyroscope", {{"length", 1}}}), "[gyroscope] 'length' must be >= 2, got 1");
  EXPECT_EQ(refusal_of({"gyroscope", {{"data_seed", -1}}}),
            "[gyroscope] 'data_seed' must be between 0 and 2147483647, got -1");
  EXPECT_EQ(refusal_of({"near_pi", {{"theta", -0.1}}}),
            "[near_pi] 'theta' must be between 0 and 6.283185307179586, got -0.1");
  EXPECT_EQ(refusal_of({"near_pi", {{"theta", std::nan("")}}}),
            "[near_pi] 'theta' must be a finite number, got nan");
  EXPECT_EQ(refusal_of({"copy", {{"length", 7}}}), "[copy] 'length' must be even, got 7");
  EXPECT_EQ(refusal_of({"copy", {{"vocabulary", 65537}}}),
            "[copy] 'vocabulary' must be between 1 and 65536, got 65537");
  EXPECT_EQ(refusal_of({"reflection", {{"length", 3}}}),
            "[reflection] 'length' must be 2 (x and -x), got 3");
  EXPECT_EQ(refusal_of({"reflection", {{"data_seed", 999}}}),
            "[reflection] 'data_seed' 999 is the seed of the validation sequences");
}

TEST(Refusal, MoreNumbersThanMemoryHolds) {
  EXPECT_EQ(
      refusal_of({"gyroscope", {{"train_sequences", 1'000'000'000}}}),
      "[gyroscope] 1000000000 'train_sequences' of length 256 and width 16 are more than 2^31 "
      "numbers");
  EXPECT_EQ(refusal_of({"copy", {{"validation_sequences", INT64_MAX}}}),
            "[copy] 9223372036854775807 'validation_sequences' of length 64 and width 1 are more "
            "than 2^31 numbers");
}

// ---- the cache

fs::path only_file(const fs::path& folder) { return fs::directory_iterator(folder)->path(); }

TEST(Cache, GivesBackEveryTaskBitForBit) {
  const TemporaryFolder folder;
  const auto cache = (folder.path() / "made" / "on demand").string();
  for (const auto& task : generated()) {
    const auto config = small(task);
    const auto fresh = load_dataset(config);
    EXPECT_TRUE(same(load_dataset(config, cache), fresh)) << task << " written";
    EXPECT_TRUE(same(load_dataset(config, cache), fresh)) << task << " read";
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(cache), {}), std::ssize(generated()))
      << "one file per task";
}

// The file is replaced by one of the same recipe with other numbers, so that reading it shows.
void fill_cache_with_ones(const fs::path& path, const std::string& recipe, int64_t width,
                          torch::ScalarType type = torch::kFloat32) {
  SafetensorsWriter writer;
  writer.metadata("recipe", recipe);
  add_tensor(writer, "train", torch::ones({6, 8, width}, type));
  add_tensor(writer, "validation", torch::ones({4, 8, width}, type));
  writer.save(path);
}

TEST(Cache, FileOfTheSameRecipeIsUsedAndOthersAreReplaced) {
  const TemporaryFolder folder;
  const auto cache = folder.path().string();
  const auto config = small("stability");
  const auto fresh = load_dataset(config, cache);
  const auto path = only_file(cache);
  const auto whole = read_file(path);
  const auto recipe = Safetensors::load(path).metadata().at("recipe");
  EXPECT_EQ(recipe, R"({"data_seed":42,"generation":1,"length":8,"task":"stability",)"
                    R"("train_sequences":6,"validation_sequences":4})");

  fill_cache_with_ones(path, recipe, 64);
  EXPECT_TRUE((load_dataset(config, cache).train_x == 1).all().item<bool>()) << "not read";

  const auto expect_replaced = [&](const char* what) {
    EXPECT_TRUE(same(load_dataset(config, cache), fresh)) << what;
    EXPECT_EQ(read_file(path), whole) << what;
    EXPECT_EQ(folder.file_count(), 1) << what;
  };
  fill_cache_with_ones(path, recipe + " ", 64);
  expect_replaced("another recipe");
  fill_cache_with_ones(path, recipe, 63);
  expect_replaced("another shape");
  fill_cache_with_ones(path, recipe, 64, torch::kFloat64);
  expect_replaced("another dtype");
  SafetensorsWriter().save(path);
  expect_replaced("no recipe");
  for (const std::size_t size : {std::size_t{0}, std::size_t{100}, whole.size() - 1}) {
    write_file_atomically(path, std::span(whole).first(size));
    expect_replaced("cut short");
  }
}

TEST(Cache, RecipesDoNotShareAFile) {
  const TemporaryFolder folder;
  const auto cache = folder.path().string();
  auto config = small("near_pi");
  std::ptrdiff_t files = 0;
  const auto expect_new_file = [&](const char* key) {
    load_dataset(config, cache);
    EXPECT_EQ(folder.file_count(), ++files) << key;
  };
  expect_new_file("task");
  expect_new_file((config.options["theta"] = 2.5, "theta"));
  expect_new_file((config.options["length"] = 9, "length"));
  expect_new_file((config.options["train_sequences"] = 7, "train_sequences"));
  expect_new_file((config.options["validation_sequences"] = 5, "validation_sequences"));
  expect_new_file((config.options["data_seed"] = 1, "data_seed"));
  config = small("copy");
  expect_new_file("task");
  expect_new_file((config.options["vocabulary"] = 5, "vocabulary"));
}

TEST(Cache, FolderThatCannotBeMadeIsNamed) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "file";
  write_file_atomically(file, "text");
  EXPECT_EQ(refusal([&] { load_dataset(small("stability"), (file / "cache").string()); }),
            fmt::format("[{}/cache] cannot be made: Not a directory", file.string()));
}

// ---- baselines

std::map<std::string, double> baselines_of(const Dataset& data) {
  std::map<std::string, double> result;
  for (const auto& [name, mse] : trivial_baselines(data)) result[name] = mse;
  return result;
}

TEST(Baselines, ByHandOnTwoSteps) {
  Dataset data;
  data.train_x = torch::tensor({1.0f, 2.0f}).view({1, 2, 1});
  data.train_y = torch::tensor({3.0f, 5.0f}).view({1, 2, 1});
  data.validation_x = torch::tensor({1.0f, 3.0f}).view({1, 2, 1});
  data.validation_y = torch::tensor({2.0f, 4.0f}).view({1, 2, 1});
  const auto mse = baselines_of(data);
  EXPECT_DOUBLE_EQ(mse.at("zero"), (4 + 16) / 2.0);
  EXPECT_DOUBLE_EQ(mse.at("copy"), (1 + 1) / 2.0);
  EXPECT_DOUBLE_EQ(mse.at("running_mean"), (1 + 4) / 2.0);
  EXPECT_DOUBLE_EQ(mse.at("negate"), (9 + 49) / 2.0);
  const auto slope = (1 * 3 + 2 * 5) / (1.0 + 4.0);
  EXPECT_DOUBLE_EQ(mse.at("linear"), (std::pow(2 - slope, 2) + std::pow(4 - 3 * slope, 2)) / 2);
}

TEST(Baselines, LinearMapOfTooFewExamplesIsTheSmallestFit) {
  // Ten vectors span 10 of 64 directions: the fit negates those and leaves the rest at zero.
  const auto few = baselines_of(load_dataset({"reflection", {{"train_sequences", 10}}}));
  EXPECT_NEAR(few.at("linear"), 54.0 / 64, 0.03);
  EXPECT_LT(baselines_of(load_dataset({"reflection"})).at("linear"), 1e-24);
}

TEST(Baselines, LinearMapOfZerosIsZero) {
  Dataset data;
  data.train_x = data.train_y = torch::zeros({3, 2, 4});
  data.validation_x = data.validation_y = torch::ones({1, 2, 4});
  EXPECT_EQ(baselines_of(data).at("linear"), 1.0);
}

TEST(Baselines, TheBestIsTheLowest) {
  EXPECT_EQ(best_baseline({{"a", 3.0}, {"b", 1.0}, {"c", 2.0}}).name, "b");
  EXPECT_THROW(best_baseline({}), Error);
}

TEST(Baselines, TokensHaveNone) {
  EXPECT_TRUE(trivial_baselines(load_dataset(small("copy"))).empty());
}

}  // namespace
}  // namespace geores
