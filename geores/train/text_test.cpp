// Training and evaluation on prepared text.
#include <cmath>
#include <filesystem>
#include <sstream>

#include "geores/base/file.h"
#include "geores/data/epoch_sampler.h"
#include "geores/data/tasks/text.h"
#include "geores/data/validation_sample.h"
#include "geores/model/transformer/block.h"
#include "geores/modules/seeding.h"
#include "geores/ops/training/sequences.h"
#include "geores/testing/testing.h"
#include "geores/text/prepare.h"
#include "geores/train/evaluation.h"
#include "geores/train/text_evaluation.h"
#include "geores/train/trainer.h"

namespace geores {
namespace {

namespace fs = std::filesystem;

struct StoppedRun {};

class Text : public testing::Test {
 protected:
  Text() {
    std::string text;
    for (int i = 0; i < 120; ++i)
      text += "line " + std::to_string(i * i % 37) + " of a small text\n";
    prepare(text);
  }

  void prepare(const std::string& text, const std::string& tokenizer = "chars") const {
    write_file_atomically(root_ / "a.txt", text);
    prepare_text({.input = {(root_ / "a.txt").string()}, .out = data(), .tokenizer = tokenizer});
  }

  std::string data() const { return (root_ / "data").string(); }
  std::string folder(const std::string& name) const { return (root_ / name).string(); }
  std::vector<std::byte> file(const std::string& run, const char* name) const {
    return read_file(root_ / run / name);
  }

  TrainConfig config(const std::string& connection = "additive") const {
    TrainConfig given;
    given.task = {.name = "text", .options = {{"data", data()}, {"context", 8}}};
    given.model.options = {{"connection", connection}, {"layers", 2}, {"width", 16}, {"heads", 2}};
    given.steps = 24;
    given.batch = 4;
    given.warmup = 5;
    given.lr = 1e-2;
    given.eval_interval = 6;
    given.eval_batches = 2;
    given.final_eval_batches = 2;
    given.log_interval = 2;
    given.checkpoint_interval = 4;
    return given;
  }

  std::shared_ptr<Model> model(const TrainConfig& given) const {
    return with_seed(
        3, [&] { return make_model(given.model, input_shape(load_dataset(given.task))); });
  }

  const TemporaryFolder temporary_;
  const fs::path root_ = temporary_.path();
};

TEST_F(Text, SequencesAreWindowsAndTargetsTheNextIds) {
  const auto given = load_dataset(config().task);
  const auto ids = given.train_ids;
  EXPECT_EQ(given.train_x.size(0), ids.size(0) - 8);
  const auto [x, y] = rows_of(given.train_x, given.train_y, {0, 5, ids.size(0) - 9});
  EXPECT_EQ(x.scalar_type(), torch::kInt64);
  const auto whole = ids.to(torch::kInt64);
  for (const auto& [row, offset] :
       {std::pair<int64_t, int64_t>{0, 0}, {1, 5}, {2, ids.size(0) - 9}}) {
    EXPECT_TRUE(torch::equal(x[row], whole.slice(0, offset, offset + 8)));
    EXPECT_TRUE(torch::equal(y[row], whole.slice(0, offset + 1, offset + 9)));
  }
  // Ids above 32767 are negative as int16.
  const auto large = torch::tensor(std::vector<int64_t>{1, 65535, 40000, 7}).to(torch::kInt16);
  const auto taken = sequences_at(windows_of(large, 2, 0, 3), torch::tensor({1}, torch::kInt64));
  EXPECT_TRUE(torch::equal(taken, torch::tensor(std::vector<int64_t>{65535, 40000}).view({1, 2})));
}

TEST_F(Text, APositionForEachIdAndNoneMore) {
  EXPECT_EQ(model(config())->input().length, 8);
  // nanoGPT's small model for a CPU has 804,096 parameters with tinyshakespeare's 65 characters.
  const auto built = make_model(
      {.options = {{"connection", "additive"}, {"layers", 4}, {"width", 128}, {"heads", 4}}},
      {.length = 64, .vocabulary = 65, .spare_positions = 0});
  EXPECT_EQ(parameter_count(*built), 804096);
}

TEST_F(Text, EveryCausalConnectionTrainsOnIt) {
  const auto given = load_dataset(config().task);
  int64_t trained = 0;
  for (const auto& connection : connections()) {
    auto wanted = config(connection.name);
    wanted.steps = 50;
    wanted.eval_interval = 50;
    wanted.model.options["layers"] = 1;
    for (const auto& option : connection.options)
      if (option.key == "pool") wanted.model.options["pool"] = "causal";
    std::shared_ptr<Model> built;
    const auto problem = refusal([&] { built = model(wanted); });
    if (problem.find("lets a token see later ones") != std::string::npos) continue;
    ASSERT_EQ(problem, "") << connection.name;
    const auto result = train(wanted, given, {});
    EXPECT_FALSE(result.diverged) << connection.name;
    EXPECT_LT(result.exact_validation, 0.85 * std::log(static_cast<double>(given.vocabulary)))
        << connection.name;
    ++trained;
  }
  EXPECT_GE(trained, 8);
}

// Each id is scored once: with one id of context every stride gives the same loss.
TEST_F(Text, ExactLossScoresEveryIdOnce) {
  const auto given = config();
  const auto built = model(given);
  const auto ids = load_dataset(given.task).validation_ids;
  for (const int64_t stride : {1, 3, 8}) {
    const auto loss = text_loss(*built, ids, {.context = 8, .stride = stride, .before_first = 2});
    EXPECT_EQ(loss.ids, ids.size(0)) << stride;
    // The same by hand: every id is scored by the window that ends with it.
    double nats = 0;
    const auto whole = torch::cat({torch::tensor({2}, torch::kInt64), ids.to(torch::kInt64)});
    for (int64_t target = 0; target < ids.size(0); ++target) {
      const auto end = std::min((target / stride + 1) * stride, ids.size(0));
      const auto start = std::max<int64_t>(0, end - 8);
      Trace trace;
      torch::NoGradGuard no_grad;
      const auto logits = built->predict(whole.slice(0, start, target + 1).unsqueeze(0), trace)[0];
      nats -=
          logits[target - start].log_softmax(0)[whole[target + 1].item<int64_t>()].item<double>();
    }
    EXPECT_NEAR(loss.nats, nats, 1e-5 * nats) << stride;
  }
  const auto few = text_loss(*built, ids, {.context = 8, .stride = 8, .most_logits = 1});
  const auto many = text_loss(*built, ids, {.context = 8, .stride = 8});
  EXPECT_NEAR(few.nats, many.nats, 1e-5 * many.nats) << "however many are read together";
  EXPECT_EQ(refusal([&] { text_loss(*built, ids, {.context = 8, .stride = 9}); }),
            "[eval] the stride must be in 1..8, got 9");
  EXPECT_EQ(refusal([&] { text_loss(*built, ids, {.context = 9, .stride = 9}); }),
            "[eval] a context of 9 is not in 1..8, the positions of the model");
}

// Three lines of 2, 3 and 1 words: nine words with the line ends, 30 bytes. A model with equal
// logits needs ln 257 nats for each of the 30 ids.
TEST_F(Text, BitsAndWordsByHand) {
  const std::string lines = "one two\nthree four five\nseven\n";
  ASSERT_EQ(count_words(lines), 9);
  const TextLoss loss{.nats = 30 * std::log(257.0), .ids = 30};
  EXPECT_NEAR(loss.bits_per_byte(30), std::log2(257.0), 1e-12);
  EXPECT_NEAR(loss.word_perplexity(9), std::pow(257.0, 30.0 / 9), 1e-6);
  EXPECT_NEAR(loss.perplexity(), 257, 1e-9);

  prepare(lines + lines + lines + lines, "bytes");
  auto given = config();
  const auto built = model(given);
  torch::NoGradGuard no_grad;
  for (const auto& parameter : built->named_parameters())
    if (parameter.key() == "embedding") parameter.value().zero_();
  const auto ids = load_dataset(given.task).validation_ids;
  const auto measured = text_loss(*built, ids, {.context = 8, .stride = 8});
  EXPECT_NEAR(measured.mean(), std::log(257.0), 1e-6);
}

TEST_F(Text, LossInPiecesIsTheLoss) {
  auto given = config();
  const auto run = [&](int64_t chunk) {
    given.model.options["loss_chunk"] = chunk;
    return train(given, load_dataset(given.task), {});
  };
  const auto whole = run(0), pieces = run(5);
  EXPECT_NEAR(pieces.exact_validation, whole.exact_validation, 1e-4);
}

TEST_F(Text, ASampleIsSpreadOverTheValidationText) {
  const auto data = load_dataset(config().task);
  const auto sample = validation_sample(data, 5);
  ASSERT_EQ(sample.x.sizes(), (std::vector<int64_t>{5, 8}));
  EXPECT_EQ(sample.x.scalar_type(), torch::kInt64);
  const auto distance = data.validation_x.size(0) / 5;
  for (int64_t i = 0; i < 5; ++i) {
    const auto window = rows_of(data.validation_x, data.validation_y, {i * distance});
    EXPECT_TRUE(sample.x[i].equal(window.x[0]));
    EXPECT_TRUE(sample.y[i].equal(window.y[0]));
  }
  EXPECT_EQ(validation_sample(data, 1 << 20).x.size(0), data.validation_x.size(0));
}

TEST_F(Text, AListenerHearsOfEveryEvaluation) {
  auto given = config();
  std::vector<int64_t> steps;
  Listener listener;
  listener.evaluated = [&](int64_t step, Model&, const std::filesystem::path&) {
    steps.push_back(step);
  };
  train(given, load_dataset(given.task), {}, listener);
  EXPECT_EQ(steps, (std::vector<int64_t>{0, 6, 12, 18, 24}));
}

// Without dropout, on windows of the train text. The evaluation changes no training step.
TEST_F(Text, EvaluationsTellTheLossOnTrainWindows) {
  auto given = config();
  given.model.options["dropout"] = 0.3;
  given.steps = 7;
  given.log_interval = 1;
  const auto dataset = load_dataset(given.task);
  struct Losses {
    std::map<int64_t, double> train, step;
  };
  const auto losses_of = [&](const std::string& name, DeviceLoopOn loop) {
    train(given, dataset, {.path = folder(name)}, {}, built_in(), loop);
    std::istringstream lines(read_text_file(root_ / name / "metrics.jsonl"));
    Losses losses;
    for (std::string line; std::getline(lines, line);) {
      const auto object = nlohmann::json::parse(line);
      if (object.contains("validation")) losses.train[object["step"]] = object["train"];
      if (object.contains("loss")) losses.step[object["step"]] = object["loss"];
    }
    return losses;
  };
  const auto once = losses_of("run", DeviceLoopOn::gpu),
             again = losses_of("again", DeviceLoopOn::gpu);
  ASSERT_EQ(once.train.size(), 3u);  // steps 0, 6 and 7
  ASSERT_EQ(once.step.size(), 7u);
  EXPECT_EQ(once.train, again.train);
  for (const auto& [step, loss] : losses_of("loop", DeviceLoopOn::every_device).train)
    EXPECT_NEAR(loss, once.train.at(step), 1e-4) << step;
  EXPECT_NEAR(once.train.at(0), std::log(static_cast<double>(dataset.vocabulary)), 0.2);
  given.eval_batches += 2;
  const auto more = losses_of("more", DeviceLoopOn::gpu);
  EXPECT_NE(more.train, once.train);
  EXPECT_EQ(more.step, once.step);
}

TEST_F(Text, InterruptedWithDropoutAndEpochsItIsBitForBitTheSame) {
  auto given = config();
  given.task.options["sampling"] = "epochs";
  given.model.options["dropout"] = 0.2;
  const auto dataset = load_dataset(given.task);
  train(given, dataset, {.path = folder("whole")});
  bool resume = false;
  for (const int64_t stop : {1, 7, 15}) {
    Listener listener;
    listener.progress = [&](const Progress& progress) {
      if (progress.step > stop) throw StoppedRun();
    };
    EXPECT_THROW(train(given, dataset, {.path = folder("broken"), .resume = resume}, listener),
                 StoppedRun);
    resume = true;
  }
  train(given, dataset, {.path = folder("broken"), .resume = true});
  for (const auto* name : {"checkpoint.safetensors", "best.safetensors"})
    EXPECT_EQ(file("whole", name), file("broken", name)) << name;
  EXPECT_EQ(file("whole", "tokenizer.json"), read_file(data() + "/tokenizer.json"));

  // Dropout is active, and neither micro-batches nor recomputed blocks change it.
  const auto loss = [&](auto&& change) {
    auto other = given;
    change(other);
    return train(other, dataset, {}).exact_validation;
  };
  const auto with = loss([](TrainConfig&) {});
  EXPECT_NE(with, loss([](TrainConfig& c) { c.model.options["dropout"] = 0.0; }));
  EXPECT_EQ(with, loss([](TrainConfig& c) { c.checkpoint = "blocks"; }));
  EXPECT_EQ(with, loss([](TrainConfig& c) { c.checkpoint = "connections"; }));
  EXPECT_NEAR(with, loss([](TrainConfig& c) { c.accumulate = 2; }), 1e-4);
}

TEST_F(Text, EpochsSetTheSteps) {
  auto given = config();
  const auto dataset = load_dataset(given.task);
  given.epochs = 2;
  complete_from_data(given, dataset);
  const auto windows = EpochSampler(0, dataset.train_ids.size(0), 8).windows();
  EXPECT_EQ(given.steps, (2 * windows + 3) / 4);
  given.epochs = 1e300;
  EXPECT_NE(refusal([&] { complete_from_data(given, dataset); }).find("1e+300 epochs"),
            std::string::npos);
}

TEST_F(Text, ResumeRefusesOtherText) {
  const auto given = config();
  train(given, load_dataset(given.task), {.path = folder("run")});
  const auto resumed = [&] {
    return refusal(
        [&] { train(given, load_dataset(given.task), {.path = folder("run"), .resume = true}); });
  };
  EXPECT_EQ(resumed(), "");
  auto text = read_text_file(root_ / "a.txt");
  text[0] = 'e';
  prepare(text);
  EXPECT_NE(resumed().find("the data's 'train_ids_sha256' was"), std::string::npos) << resumed();
  text[0] = 'Q';
  prepare(text);
  EXPECT_NE(resumed().find("the data's 't"), std::string::npos) << resumed();
}

TEST_F(Text, RefusesInOneLine) {
  const auto refused = [&](const nlohmann::json& options) {
    return refusal([&] { load_dataset({.name = "text", .options = options}); });
  };
  EXPECT_EQ(refused({}), "[text] --data DIR is required: a folder of `geores data text`");
  EXPECT_EQ(refused({{"data", "nowhere"}}), "[nowhere] is no folder of prepared text");
  prepare("0123456789");
  EXPECT_EQ(refused({{"data", data()}, {"context", 9}}),
            "[" + data() + "/train.bin] has 9 ids, a context of 9 needs at least 10");
  EXPECT_EQ(refused({{"data", data()}, {"context", 4}}),
            "[" + data() + "/val.bin] has 1 ids, a context of 4 needs at least 5");
  EXPECT_EQ(refused({{"data", data()}, {"vocabulary", 5}}),
            "[" + data() + "/data.json] has a vocabulary of 10, asked for 5");
}

// A file that shrinks during a run ends it with one line at the next evaluation.
TEST_F(Text, AFileThatShrinksEndsTheRun) {
  auto given = config();
  const auto dataset = load_dataset(given.task);
  Listener listener;
  bool cut = false;
  listener.progress = [&](const Progress&) {
    if (!std::exchange(cut, true))
      fs::resize_file(data() + "/train.bin", fs::file_size(data() + "/train.bin") - 2);
  };
  const auto text = refusal([&] { train(given, dataset, {}, listener); });
  EXPECT_NE(text.find("train.bin] has changed while it was in use"), std::string::npos) << text;
}

}  // namespace
}  // namespace geores
