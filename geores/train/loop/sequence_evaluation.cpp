#include <cmath>
#include <optional>

#include "geores/base/error.h"
#include "geores/data/batch_sampler.h"
#include "geores/train/communication/shared_run.h"
#include "geores/train/evaluation.h"
#include "geores/train/loop/draws.h"
#include "geores/train/loop/run_evaluation.h"
#include "geores/train/text_evaluation.h"

namespace geores {
namespace {

// Keeps the weights of the best evaluation.
class SequenceEvaluation final : public RunEvaluation {
 public:
  explicit SequenceEvaluation(const RunParts& parts)
      : run_(parts),
        train_(seed(), parts.data.train_x.size(0)),
        validation_set_(seed(), parts.data.validation_x.size(0)),
        validation_(parts.files.metrics().last_kept("validation", 0)) {}

  bool is_due(int64_t step) const override { return step % run_.config.eval_interval == 0; }
  double validation() const override { return validation_; }

  void evaluate(int64_t step) override {
    if (run_.dataset.require_unchanged) run_.dataset.require_unchanged();
    validation_ = loss_at(step, run_.config.eval_batches);
    const auto train_text = loss_of_train_text(step);
    run_.training.gather_carry();
    if (run_.communicator.is_first()) write(step, train_text);
    if (!(validation_ < run_.position.best_validation)) return;
    run_.position.best_validation = validation_;
    run_.position.best_step = step;
    if (run_.communicator.is_first()) run_.files.keep_best(run_.model, step);
  }

  void finish(TrainResult& result) override {
    const auto steps = run_.config.steps;
    evaluate(steps);
    result.best_step = run_.position.best_step;
    result.best_validation = run_.position.best_validation;
    result.final_validation = loss_at(steps, run_.config.final_eval_batches);
    result.exact_validation = result.exact_best = exact();
    if (run_.dataset.require_unchanged) run_.dataset.require_unchanged();
    if (!std::isfinite(result.exact_validation)) {
      result.diverged = true;
      report_nonfinite_loss(result);
      return;
    }
    if (result.best_step < 0 || result.best_step == steps) return;
    if (run_.communicator.is_first()) run_.files.load_best(run_.model);
    broadcast_all(run_.communicator, tensors_of(run_.model));
    result.exact_best = exact();
  }

 private:
  uint64_t seed() const { return static_cast<uint64_t>(run_.config.seed); }

  // Every evaluation has its own draws: a pure function of seed, step and batch.
  std::vector<int64_t> batch(int64_t step, int64_t i) const {
    return validation_set_.indices(
        kEvaluationBatches, step * (run_.config.final_eval_batches + run_.config.eval_batches) + i,
        run_.config.batch);
  }

  // Mean loss over random batches, never in bfloat16.
  double loss_at(int64_t step, int64_t batches) {
    std::vector<std::vector<int64_t>> drawn;
    for (int64_t i = 0; i < batches; ++i) drawn.push_back(batch(step, i));
    if (run_.device_loop) return run_.device_loop->evaluate(drawn);
    return loss_over_batches(run_.model, run_.data.validation_x, run_.data.validation_y, drawn,
                             run_.communicator);
  }

  // For text: the loss on as many windows of the train text, without dropout.
  std::optional<double> loss_of_train_text(int64_t step) {
    if (!run_.dataset.text()) return std::nullopt;
    const auto count = run_.config.eval_batches;
    std::vector<std::vector<int64_t>> drawn;
    for (int64_t i = 0; i < count; ++i)
      drawn.push_back(train_.indices(kTrainLossBatches, step * count + i, run_.config.batch));
    if (run_.device_loop) return run_.device_loop->evaluate(drawn, EvaluatedSet::train);
    return loss_over_batches(run_.model, run_.data.train_x, run_.data.train_y, drawn,
                             run_.communicator);
  }

  void write(int64_t step, std::optional<double> train_text) {
    const auto sample =
        rows_of(run_.data.validation_x, run_.data.validation_y,
                validation_set_.indices(kEvaluationBatches, step, run_.config.batch))
            .x.slice(0, 0, 4);
    run_.files.write_metrics(read_meters(
        run_.catalogue.meters, EvaluationReading(step, validation_, train_text, run_.model,
                                                 run_.training.carry(), sample)));
    if (run_.listener.evaluated) run_.listener.evaluated(step, run_.model, run_.files.folder());
  }

  // Over the whole validation set.
  double exact() const {
    if (!run_.dataset.text())
      return exact_loss(run_.model, run_.data.validation_x, run_.data.validation_y,
                        run_.config.batch, run_.communicator);
    return text_loss(run_.model, run_.dataset.validation_ids,
                     {.context = run_.dataset.length(),
                      .stride = run_.dataset.length(),
                      .before_first = run_.dataset.before_first},
                     run_.communicator)
        .mean();
  }

  // The weights of the last step are finite, but the loss over the validation set is not.
  void report_nonfinite_loss(const TrainResult& result) const {
    if (!run_.listener.notice) return;
    run_.listener.notice(fmt::format(
        "the loss over the validation set is {} after the last step; {}", result.exact_validation,
        result.best_step < 0 ? "no evaluation was finite"
                             : fmt::format("the weights of step {} are kept", result.best_step)));
  }

  RunParts run_;
  BatchSampler train_, validation_set_;
  double validation_;
};

}  // namespace

std::unique_ptr<RunEvaluation> sequence_evaluation(const RunParts& parts) {
  return std::make_unique<SequenceEvaluation>(parts);
}

}  // namespace geores
