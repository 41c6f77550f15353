#include <cmath>
#include <memory>

#include "geores/base/error.h"
#include "geores/train/loop/run_evaluation.h"
#include "geores/train/puzzles/puzzle_evaluation.h"

namespace geores {
namespace {

// Scores answers of the averaged weights: on the first test rows while the run trains, on all of
// them after the last step.
class PuzzlesWhileTraining final : public RunEvaluation {
 public:
  explicit PuzzlesWhileTraining(const RunParts& parts) : run_(parts) {}

  bool is_due(int64_t step) const override {
    return step > 0 && step % run_.config.eval_interval == 0;
  }
  double validation() const override { return validation_; }

  void evaluate(int64_t step) override {
    const auto scores = scores_of(run_.config.eval_rows);
    if (run_.communicator.is_first())
      run_.files.write_metrics({{"step", step}, {"evaluation", scores}});
    if (run_.listener.evaluated && run_.communicator.is_first())
      run_.listener.evaluated(step, run_.model, run_.files.folder());
  }

  void finish(TrainResult& result) override {
    auto scores = scores_of(0);
    if (std::isfinite(validation_)) {
      result.evaluation = std::move(scores);
      return;
    }
    result.diverged = true;
    if (run_.listener.notice)
      run_.listener.notice(
          fmt::format("the loss over the test set is {} after the last step", validation_));
  }

 private:
  nlohmann::json scores_of(int64_t rows) {
    const AveragedParameters averaged(run_.training);
    const auto& config = run_.config;
    auto& model = dynamic_cast<Recursive&>(run_.model);
    if (!solver_) solver_ = std::make_unique<PuzzleSolver>(model, config.batch, config.precision);
    auto scores = evaluate_puzzles(*run_.dataset.puzzle_set, *solver_, config.batch,
                                   {.rows = rows, .votes = config.votes}, {}, run_.communicator);
    validation_ = scores["lm_loss"];
    return scores;
  }

  RunParts run_;
  std::unique_ptr<PuzzleSolver> solver_;
  double validation_ = 0;
};

}  // namespace

std::unique_ptr<RunEvaluation> puzzle_evaluation(const RunParts& parts) {
  return std::make_unique<PuzzlesWhileTraining>(parts);
}

}  // namespace geores
