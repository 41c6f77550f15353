#include "geores/train/device/device_loop.h"

#include <algorithm>
#include <cmath>

#include "geores/base/error.h"
#include "geores/ops/run/precision.h"
#include "geores/ops/training/sequences.h"
#include "geores/train/evaluation.h"

namespace geores {
namespace {

template <class T>
Tensor table_of(const std::vector<std::vector<T>>& lines) {  // rows of equal length
  const auto width = static_cast<int64_t>(lines.empty() ? 0 : lines.front().size());
  auto table = torch::empty({static_cast<int64_t>(lines.size()), width},
                            torch::CppTypeToScalarType<T>::value);
  auto* to = table.template data_ptr<T>();
  for (const auto& line : lines) {
    require(static_cast<int64_t>(line.size()) == width, "train", "batches differ in size");
    to = std::copy(line.begin(), line.end(), to);
  }
  return table;
}

template <class Value>
Tensor by_step(int64_t steps, const Tensor& like, Value&& value) {
  auto table = torch::empty({steps}, torch::kFloat64);
  for (int64_t step = 0; step < steps; ++step) table.data_ptr<double>()[step] = value(step);
  return table.to(like.options().requires_grad(false));
}

}  // namespace

DeviceLoop::DeviceLoop(Model& model, TrainingStep& training, const TrainConfig& config,
                       const DeviceData& data, LoopBatches batches, int64_t first_step,
                       int64_t window)
    : model_(model),
      training_(training),
      config_(config),
      data_(data),
      device_(training.parameters().values().device()),
      batches_(std::move(batches)),
      parts_(config.parts(config.batch / training.communicator().size())),
      next_step_(first_step),
      window_(std::min(window, config.steps)),
      training_work_(device_, [this] { train_work(); }),
      update_work_(device_, [this] { update_work(); }),
      evaluation_work_(device_, [this] { evaluate_work(data_.validation_x, data_.validation_y); }),
      train_loss_work_(device_, [this] { evaluate_work(data_.train_x, data_.train_y); }) {
  const auto& like = training.parameters().values();
  const auto counter = torch::TensorOptions(torch::kInt64).device(device_);
  const auto& options = training.optimizer().options();
  const auto correction = [](double beta) {
    return [beta](int64_t step) { return 1 - std::pow(beta, static_cast<double>(step + 1)); };
  };
  tables_.step = torch::full({1}, first_step, counter);
  require(window_ >= 1 && first_step >= 0, "train", "there is no step to take");
  tables_.rates =
      torch::stack({by_step(config.steps, like,
                            [&](int64_t step) { return learning_rates(config, step).parameters; }),
                    by_step(config.steps, like, correction(options.beta1)),
                    by_step(config.steps, like, correction(options.beta2)),
                    by_step(config.steps, like,
                            [&](int64_t step) { return learning_rates(config, step).table; })},
                   1);
  tables_.losses = torch::zeros({config.steps}, tables_.rates.options());
  tables_.norms = torch::zeros_like(tables_.losses);
  const auto most = std::max(config.eval_batches, config.final_eval_batches);
  evaluation_rows_ = torch::zeros({most, config.batch}, counter);
  evaluation_weights_ = torch::zeros({most, config.batch}, counter.dtype(torch::kFloat64));
  evaluation_step_ = torch::zeros({1}, counter);
  evaluation_losses_ = torch::zeros({most}, evaluation_weights_.options());
  const ExecutionScope precision(precision_from(config.precision));
  if (training.optimizer().leaves_ready()) training.parameters().keep_ready();
  if (data.train_x.defined()) return;
  const auto first = batches_(first_step).made;
  require(first.has_value(), "train", "there are neither sequences nor batches to train on");
  made_ = {torch::zeros_like(first->x, device_), torch::zeros_like(first->y, device_)};
}

// A window begins at a multiple of its length, wherever training began. What the device still does with
// the one before it comes first: the copies wait in the same CUDA stream.
void DeviceLoop::fill_window() {
  const auto first = next_step_ / window_ * window_, end = std::min(first + window_, config_.steps);
  std::vector<std::vector<int64_t>> rows;
  std::vector<double> terms;
  for (auto step = first; step < end; ++step) {
    auto batch = batches_(step);
    rows.push_back(std::move(batch.rows));
    if (batch.terms) terms.push_back(*batch.terms);
  }
  const auto table = table_of(rows);
  // Kernels do not check bounds; do it here.
  require(table.numel() == 0 || (table.min().item<int64_t>() >= 0 &&
                                 table.max().item<int64_t>() < data_.train_x.size(0)),
          "train", "a batch asks for sequences that are not there");
  require(terms.empty() || static_cast<int64_t>(terms.size()) == end - first, "train",
          "{} batches need as many counts of terms, not {}", end - first, terms.size());
  // The tables stay where they are: a recording holds their addresses.
  const auto put = [&](Tensor& kept, const Tensor& from) {
    if (!kept.defined()) {
      auto shape = from.sizes().vec();
      shape[0] = window_;
      kept = torch::zeros(shape, from.options().device(device_));
    }
    kept.slice(0, 0, from.size(0)).copy_(from);
  };
  put(tables_.batches, table);
  if (!terms.empty()) put(terms_, torch::tensor(terms, torch::kFloat64));
}

Tensor DeviceLoop::terms_of_step() const {
  return terms_.defined() ? terms_.index_select(0, row_of_step(tables_.step, window_)) : Tensor();
}

TrainingStep::Rates DeviceLoop::rates_of(const Tensor& rates) const {
  return {.learning_rate = rates.slice(0, 0, 1),
          .bias1 = rates.slice(0, 1, 2),
          .bias2 = rates.slice(0, 2, 3),
          .table_rate = rates.slice(0, 3, 4)};
}

StepInput DeviceLoop::input_of_step() const {
  if (!is_made()) return step_input(tables_, data_.train_x, data_.train_y);
  return {
      .x = made_.x, .y = made_.y, .rates = tables_.rates.index_select(0, tables_.step).view({-1})};
}

void DeviceLoop::train_work() {
  const ExecutionScope precision(precision_from(config_.precision));
  const auto [x, y, rates] = input_of_step();
  training_.set_pass(config_.seed, tables_.step);
  if (in_group()) {
    training_.leave_gradients(x, y, parts_, terms_of_step());
    return;
  }
  const auto done = training_.run(x, y, rates_of(rates), parts_, terms_of_step());
  end_step(tables_, done.loss, done.gradient_norm);
}

// Looks up the rates again: values read by the other graph are not kept.
void DeviceLoop::update_work() {
  const ExecutionScope precision(precision_from(config_.precision));
  const auto rates = tables_.rates.index_select(0, tables_.step).view({-1});
  const auto done = training_.update(rates_of(rates));
  end_step(tables_, done.loss, done.gradient_norm);
}

void DeviceLoop::step() {
  require(next_step_ < config_.steps, "train", "all {} steps are taken", config_.steps);
  if (is_made()) {
    const auto batch = batches_(next_step_);
    made_.x.copy_(batch.made->x);
    made_.y.copy_(batch.made->y);
  } else if (!tables_.batches.defined() || next_step_ % window_ == 0) {
    fill_window();
  }
  training_.parameters().before_replay();
  training_work_.run();
  if (in_group()) {
    training_.sum_gradients();
    update_work_.run();
  }
  training_.optimizer().steps() = ++next_step_;
}

DeviceLoop::Numbers DeviceLoop::numbers(int64_t step) const {
  training_.communicator().settle();
  return {tables_.losses[step].item<double>(), tables_.norms[step].item<double>()};
}

std::optional<int64_t> DeviceLoop::first_not_finite(int64_t first, int64_t end) const {
  training_.communicator().settle();
  const auto bad = (torch::isfinite(tables_.losses.slice(0, first, end)) &
                    torch::isfinite(tables_.norms.slice(0, first, end)))
                       .logical_not()
                       .nonzero();
  if (bad.numel() == 0) return std::nullopt;
  return first + bad[0][0].item<int64_t>();
}

void DeviceLoop::evaluate_work(const Tensor& all_x, const Tensor& all_y) {
  torch::NoGradGuard no_grad;
  const auto rows = evaluation_rows_.index_select(0, evaluation_step_).view(-1),
             shares = evaluation_weights_.index_select(0, evaluation_step_).view(-1);
  const auto x = sequences_at(all_x, rows), y = sequences_at(all_y, rows);
  evaluation_losses_.index_copy_(0, evaluation_step_,
                                 model_.weighted_loss({x, y}, shares).view({1}));
  evaluation_step_.add_(training_.communicator().size());
}

double DeviceLoop::evaluate(const std::vector<std::vector<int64_t>>& drawn, EvaluatedSet set) {
  require(!drawn.empty(), "train", "no batch to evaluate");
  for (const auto& rows : drawn)
    require(static_cast<int64_t>(rows.size()) == evaluation_rows_.size(1), "train",
            "a batch to evaluate has {} sequences, not {}", rows.size(), evaluation_rows_.size(1));
  auto batches = evaluation_batches(drawn, model_.weighs_sequences());
  const auto count = static_cast<int64_t>(batches.size());
  require(count <= evaluation_rows_.size(0), "train", "no buffer for {} batches of evaluation",
          count);
  // A CUDA graph has a fixed batch size: pad with zero-weight repeats.
  const auto size = static_cast<size_t>(evaluation_rows_.size(1));
  std::vector<std::vector<int64_t>> rows;
  std::vector<std::vector<double>> weights;
  for (auto& batch : batches) {
    batch.rows.resize(size, batch.rows.front());
    batch.weights.resize(size, 0.0);
    rows.push_back(std::move(batch.rows));
    weights.push_back(std::move(batch.weights));
  }
  evaluation_rows_.slice(0, 0, count).copy_(table_of(rows));
  evaluation_weights_.slice(0, 0, count).copy_(table_of(weights));
  const auto& communicator = training_.communicator();
  evaluation_step_.fill_(communicator.rank());
  evaluation_losses_.zero_();
  auto& work = set == EvaluatedSet::train ? train_loss_work_ : evaluation_work_;
  for (auto i = communicator.rank(); i < count; i += communicator.size()) work.run();
  communicator.sum(evaluation_losses_);
  communicator.settle();
  const auto losses = evaluation_losses_.to(torch::kCPU);
  double total = 0;
  for (int64_t i = 0; i < count; ++i) total += losses.data_ptr<double>()[i];
  return total;
}

}  // namespace geores
