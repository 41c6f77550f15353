// Parity with nanoGPT (Karpathy): its two configurations for tinyshakespeare by characters, with
// its published losses. nanoGPT takes one more step and evaluates before a step; neither affects
// the second digit.
#include "lab/experiments/language/papers.h"

namespace geores {
namespace {

using nlohmann::json;
using namespace arms;

json nanogpt_training(int64_t steps, int64_t batch, int64_t eval_batches) {
  return {{"connection", "additive"},
          {"batch", batch},
          {"steps", steps},
          {"warmup", 100},
          {"lr", 1e-3},
          {"min_lr", 1e-4},
          {"beta2", 0.99},
          {"weight_decay", 0.1},
          {"clip", 1.0},
          {"schedule", "nanogpt"},
          {"eval_interval", 250},
          {"eval_batches", eval_batches},
          {"final_eval_batches", eval_batches},
          {"checkpoint_interval", 1000},
          {"log_interval", 10}};
}

}  // namespace

LanguagePaper nanogpt_paper(const std::string& scale, const std::string& data) {
  const auto nan = std::numeric_limits<double>::quiet_NaN();
  const auto small =
      with(nanogpt_training(2000, 12, 20), {{"layers", 4}, {"heads", 4}, {"width", 128}});
  const Experiment cpu{
      .name = "cpu",
      .title = "nanoGPT's model for a CPU",
      .text =
          "4 layers, 4 heads, width 128, context 64, batch 12, no dropout, 2,000 steps. The "
          "published 1.88 is the loss on 20 random batches; nanoGPT itself with Debian's "
          "PyTorch has 1.905 over the whole validation text.",
      .columns = {{"shakespeare_char", "tinyshakespeare", text_task(data, "shakespeare_char", 64)}},
      .arms =
          {{"additive", "pre-norm, as nanoGPT", small, {{"shakespeare_char", {1.905, nan, 1}}}}},
      .quick_seeds = 3};
  LanguagePaper paper{
      .name = "nanogpt",
      .title = "Parity with nanoGPT on tinyshakespeare",
      .text =
          "The same data, model, optimiser and schedule as nanoGPT's shakespeare_char. The loss "
          "on random batches is the one that nanoGPT prints; that over the whole validation text "
          "has no sampling noise.",
      .experiments = {cpu},
      .claims = {}};
  if (scale != "gpu") return paper;
  const auto large =
      with(nanogpt_training(5000, 64, 200), {{"layers", 6}, {"heads", 6}, {"width", 384}});
  const Experiment parity{
      .name = "parity",
      .title = "shakespeare_char",
      .text =
          "6 layers, 6 heads, width 384, context 256, batch 64, dropout 0.2, 5,000 steps; best "
          "of evaluations every 250 steps on 200 batches. Published: 1.4697. Without dropout "
          "the model overfits its train text.",
      .columns = {{"shakespeare_char", "tinyshakespeare",
                   text_task(data, "shakespeare_char", 256)}},
      .arms = {{"dropout",
                "pre-norm, dropout 0.2",
                with(large, {{"dropout", 0.2}}),
                {{"shakespeare_char", {1.4697, nan, 1}}}},
               {"plain", "without dropout", large}},
      .measures = {"sample"}};
  paper.experiments.insert(paper.experiments.begin(), parity);
  paper.claims = {{"dropout helps", "parity", "shakespeare_char", "dropout", "plain"}};
  return paper;
}

}  // namespace geores
