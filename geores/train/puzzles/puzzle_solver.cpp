#include "geores/train/puzzles/puzzle_solver.h"

#include "geores/base/error.h"
#include "geores/ops/run/device_named.h"
#include "geores/ops/run/execution.h"
#include "geores/train/puzzles/puzzle_batch.h"

namespace geores {

LoadedRun load_puzzle_run(const std::string& path, const std::string& device) {
  auto run = load_run(path);
  require(run.config.method() == Method::puzzles, "run", "{} holds no run on puzzles", path);
  run.model->to(device_named(device, "puzzles"));
  return run;
}

Recursive& recursive_model(const LoadedRun& run) { return dynamic_cast<Recursive&>(*run.model); }

PuzzleSolver::PuzzleSolver(Recursive& model, int64_t rows, const std::string& precision)
    : model_(model), precision_(precision), work_(model.table().device(), [this] { work(); }) {
  const auto counts = torch::TensorOptions(torch::kInt64).device(model.table().device());
  const auto cells = model.input().length, steps = model.options().act_steps;
  x_ = torch::zeros({rows, 1 + cells}, counts);
  y_ = torch::zeros({rows, cells}, counts);
  predictions_ = torch::zeros({steps, rows, cells}, counts.dtype(torch::kInt32));
  q_halt_ = torch::zeros({steps, rows}, counts.dtype(torch::kFloat64));
  lm_loss_ = torch::zeros({rows}, q_halt_.options());
}

void PuzzleSolver::work() {
  const torch::NoGradGuard no_grad;
  const ExecutionScope precision(precision_from(precision_));
  const auto last = model_.solve(x_.slice(1, 1), x_.select(1, 0),
                                 [this](int64_t step, const Recursive::Answer& answer) {
                                   predictions_[step].copy_(answer.logits.argmax(-1));
                                   q_halt_[step].copy_(answer.q.select(1, 0));
                                 });
  lm_loss_.copy_(score_rows(last.logits, last.q.select(1, 0), y_).lm_loss);
}

PuzzleSolver::Solved PuzzleSolver::solve(const puzzles::Batch& batch) {
  const auto [x, y] = to_tensors(batch);
  require(x.sizes() == x_.sizes(), "solve", "a batch has {} rows of {} cells, expected {} of {}",
          batch.rows, batch.cells, x_.size(0), y_.size(1));
  x_.copy_(x);
  y_.copy_(y);
  work_.run();
  return {.predictions = predictions_.to(torch::kCPU, torch::kInt32, false, /*copy=*/true),
          .q_halt = q_halt_.to(torch::kCPU, torch::kFloat64, false, /*copy=*/true),
          .lm_loss = lm_loss_.to(torch::kCPU, torch::kFloat64, false, /*copy=*/true)};
}

}  // namespace geores
