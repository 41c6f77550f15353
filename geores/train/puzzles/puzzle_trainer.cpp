#include "geores/train/puzzles/puzzle_trainer.h"

#include <chrono>
#include <cmath>

#include "geores/base/error.h"
#include "geores/model/recursive/halting.h"
#include "geores/modules/seeding.h"
#include "geores/ops/run/device_named.h"
#include "geores/ops/run/precision.h"
#include "geores/train/communication/shared_run.h"
#include "geores/train/device/recorded_work.h"
#include "geores/train/divergence.h"
#include "geores/train/puzzles/puzzle_batch.h"
#include "geores/train/puzzles/puzzle_evaluation.h"

namespace geores {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kPuzzleComparisonInterval = 100;  // as in trainer.cpp

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

class PuzzleRun {
 public:
  PuzzleRun(const PuzzleConfig& config, const puzzles::Dataset& data, const RunFolder& folder,
            const Listener& listener, const Communicator& communicator)
      : config_(config),
        communicator_(communicator),
        data_(data),
        listener_(listener),
        device_(device_named(config.device, "train")),
        cuda_stream_(device_),
        model_(make_model_on_device()),
        files_(agreed_folder(folder), config, data.fingerprint(), listener.notice),
        training_(*model_, config.step_options(), first_carry(), communicator),
        order_(data.train(), static_cast<uint64_t>(config.seed), config.batch),
        work_(device_, [this] { step_work(); }),
        update_work_(device_, [this] { update_work(); }) {
    if (device_.is_cuda()) set_float32_products(precision_from(config.precision));
    const auto counts = torch::TensorOptions(torch::kInt64).device(device_);
    const auto rows = config.batch / communicator.size();
    x_ = torch::zeros({rows, 1 + data.info().cells()}, counts);
    y_ = torch::zeros({rows, data.info().cells()}, counts);
    rates_ = torch::zeros({4}, model_->table().options());
    numbers_ = torch::zeros({2}, counts.dtype(torch::kFloat64));
    auto built = model_->description();
    built.update({{"kind", "recursive"},
                  {"parameters", parameter_count(*model_)},
                  {"data", input_shape(data.info()).to_json()}});
    files_.write_model(built);
    step_ = files_.resume(*model_, training_);
    share_state();
    saved_step_ = step_;
    before_ = files_.metrics().last_kept("seconds", 0);
  }

  PuzzleResult execute() {
    PuzzleResult result{.parameters = parameter_count(*model_)};
    for (; step_ < config_.steps; ++step_) {
      result.interrupted = stop_is_asked();
      if (result.interrupted) break;
      if (checkpoint_is_due() && !save_checkpoint()) {
        result.diverged = true;
        break;
      }
      if (step_ > 0 && step_ % config_.eval_interval == 0)
        files_.write_metrics({{"step", step_}, {"evaluation", evaluate(config_.eval_rows)}});
      if (!train_one()) {
        result.diverged = true;
        break;
      }
    }
    if (!result.diverged) result.diverged = !save_checkpoint();
    result.interrupted = result.interrupted && !result.diverged;
    result.steps = step_;
    if (result.interrupted) return result;
    if (!result.diverged) result.evaluation = evaluate(0);
    // The weights are finite, but the loss over the test set is not.
    if (!result.diverged && !std::isfinite(validation_)) {
      if (listener_.notice)
        listener_.notice(
            fmt::format("the loss over the test set is {} after the last step", validation_));
      result.diverged = true;
      result.evaluation = nullptr;
    }
    result.training = last_line_;
    result.seconds = seconds();
    result.step_seconds = timed_steps_ > 0 ? training_seconds_ / double(timed_steps_) : 0;
    files_.write_result(result.to_json());
    return result;
  }

 private:
  // Only rank 0 has files, and only once all processes have agreed on the run.
  RunFolder agreed_folder(const RunFolder& folder) const {
    require_same_run(communicator_, config_.write(), {{"fingerprint", data_.fingerprint()}},
                     *model_);
    return communicator_.is_first() ? folder : RunFolder{};
  }

  // The progress that rank 0 has read.
  void share_state() {
    std::vector<int64_t> counts = {step_, files_.is_starting() ? 1 : 0};
    broadcast_counts(communicator_, counts);
    step_ = counts[0];
    starting_ = counts[1] == 1;
    auto tensors = tensors_of(*model_);
    auto& optimizer = training_.optimizer();
    tensors.insert(tensors.end(), {optimizer.first_moment(), optimizer.second_moment()});
    if (training_.average().defined()) tensors.push_back(training_.average());
    for (const auto& [name, tensor] : training_.carry().all()) tensors.push_back(tensor);
    broadcast_all(communicator_, tensors);
  }

  void compare_weights() {
    if (communicator_.size() == 1 || (step_ + 1) % kPuzzleComparisonInterval != 0) return;
    auto tensors = tensors_of(*model_);
    if (training_.average().defined()) tensors.push_back(training_.average());
    require_same_values(communicator_, tensors, fmt::format("after step {}", step_ + 1));
  }

  std::shared_ptr<Recursive> make_model_on_device() const {
    auto model = with_seed(config_.seed, [&] {
      return std::make_shared<Recursive>(config_.model, input_shape(data_.info()));
    });
    model->to(device_);
    return model;
  }

  Carry first_carry() const {
    auto carry = model_->initial_carry(config_.batch);
    carry.set("draws", first_draws(config_.batch, config_.seed).to(device_));
    return carry;
  }

  double seconds() const { return before_ + seconds_since(start_); }

  // In a group all processes stop after the same step: they exchange a stop flag at each logged
  // step.
  bool stop_is_asked() const {
    const bool asked = listener_.stop && listener_.stop();
    if (!communicator_.is_group()) return asked;
    if (!is_logged(step_)) return false;
    auto votes = torch::full({1}, asked ? 1.0 : 0.0,
                             torch::TensorOptions(torch::kFloat64).device(communicator_.device()));
    communicator_.sum(votes);
    communicator_.settle();
    return votes.item<double>() > 0;
  }

  // A new run writes its first checkpoint after one step, when it is known to work.
  bool checkpoint_is_due() const {
    return step_ > 0 && (step_ % config_.checkpoint_interval == 0 || starting_);
  }

  // False if the run has diverged: a checkpoint holds finite values only.
  bool save_checkpoint() {
    if (step_ == saved_step_) return true;
    for (const auto& tensor :
         {training_.parameters().values(), training_.optimizer().first_moment(),
          training_.optimizer().second_moment()})
      if (!torch::isfinite(tensor).all().item<bool>()) {
        report_divergence(fmt::format("the weights are not finite after step {}", step_ - 1));
        return false;
      }
    training_.gather_carry();
    files_.save_checkpoint(*model_, training_, step_);
    starting_ = false;
    saved_step_ = step_;
    return true;
  }

  void report_divergence(const std::string& cause) {
    if (listener_.notice) listener_.notice(divergence_notice(cause, saved_step_));
  }

  RecursiveStep::Rates rates() const {
    const auto rate = [this](int64_t i) { return rates_.slice(0, i, i + 1); };
    return {.adam = {.learning_rate = rate(0), .bias1 = rate(1), .bias2 = rate(2)},
            .table_rate = rate(3)};
  }

  // The work that is recorded on a GPU: everything from the offered batch to the new weights; in a
  // group, everything up to the gradients.
  void step_work() {
    const ExecutionScope precision(precision_from(config_.precision));
    if (communicator_.is_group()) {
      training_.leave_gradients(x_, y_, parts());
      return;
    }
    const auto done = training_.run(x_, y_, rates(), parts());
    numbers_.copy_(torch::stack({done.loss, done.gradient_norm}));
  }

  // In a group: the optimiser.
  void update_work() {
    const ExecutionScope precision(precision_from(config_.precision));
    const auto done = training_.update(rates());
    numbers_.copy_(torch::stack({done.loss, done.gradient_norm}));
  }

  int64_t parts() const { return config_.micro_batch > 0 ? x_.size(0) / config_.micro_batch : 1; }

  void offer_batch() {
    const auto [x, y] =
        to_tensors(data_.train().batch(own_rows(communicator_, order_.rows(step_))));
    x_.copy_(x);
    y_.copy_(y);
    const auto t = static_cast<double>(step_ + 1);
    const auto factor = config_.rate_factor(step_ + 1);
    const std::vector<double> rates = {config_.lr * factor, 1 - std::pow(config_.beta1, t),
                                       1 - std::pow(config_.beta2, t), config_.table_lr * factor};
    rates_.copy_(torch::tensor(rates, torch::kFloat64));
  }

  bool is_logged(int64_t step) const {
    return step % config_.log_interval == 0 || step + 1 == config_.steps;
  }

  // The number of steps since the last line, this one included. It is a function of the step, so a
  // resumed run writes the same lines.
  int64_t steps_in_line() const {
    if (step_ == 0) return 1;
    const auto before = (step_ - 1) / config_.log_interval * config_.log_interval;
    return step_ - before;
  }

  // False when the loss is no longer finite.
  bool train_one() {
    const auto start = Clock::now();
    offer_batch();
    training_.parameters().before_replay();
    work_.run();
    if (communicator_.is_group()) {
      training_.sum_gradients();
      update_work_.run();
      compare_weights();
    }
    if (!is_logged(step_)) {
      count_time(start);
      return true;
    }
    communicator_.settle();
    const auto numbers = numbers_.to(torch::kCPU);  // synchronises with the device
    count_time(start);
    const auto loss = numbers[0].item<double>(), norm = numbers[1].item<double>();
    if (!std::isfinite(loss) || !std::isfinite(norm)) {
      report_divergence(cause_of_divergence(step_, loss, norm));
      return false;
    }
    log_step(loss, norm);
    return true;
  }

  void count_time(Clock::time_point start) {
    training_seconds_ += seconds_since(start);
    ++timed_steps_;
  }

  void log_step(double loss, double norm) {
    auto& carry = training_.carry();
    auto summed = carry.part(communicator_.rank(), communicator_.size()).at("metrics").sum(0);
    communicator_.sum(summed);
    communicator_.settle();
    const auto sums = summed.to(torch::kCPU);
    carry.set("metrics", torch::zeros_like(carry.at("metrics")));
    const auto sum = [&](Recursive::Metric metric) { return sums[metric].item<double>(); };
    const auto passes = static_cast<double>(steps_in_line() * config_.batch);
    nlohmann::json line = {{"step", step_},
                           {"loss", loss},
                           {"lm_loss", sum(Recursive::kLmLoss) / passes},
                           {"q_loss", sum(Recursive::kQLoss) / passes},
                           {"grad_norm", norm},
                           {"lr", config_.lr * config_.rate_factor(step_ + 1)},
                           {"epoch", order_.epoch(step_)},
                           {"finished_rows", sum(Recursive::kCount)}};
    if (const auto count = sum(Recursive::kCount); count > 0)
      line.update({{"cells", sum(Recursive::kRightCells) / count},
                   {"exact", sum(Recursive::kExact) / count},
                   {"q_halt_accuracy", sum(Recursive::kQRight) / count},
                   {"act_steps", sum(Recursive::kSteps) / count}});
    last_line_ = line;
    line["seconds"] = seconds();
    files_.write_metrics(line);
    if (listener_.progress)
      listener_.progress({.step = step_ + 1,
                          .total = config_.steps,
                          .loss = loss,
                          .validation = validation_,
                          .seconds = seconds()});
  }

  nlohmann::json evaluate(int64_t rows) {
    const AveragedParameters averaged(training_);
    if (!solver_)
      solver_ = std::make_unique<PuzzleSolver>(*model_, config_.batch, config_.precision);
    const auto results = evaluate_puzzles(
        data_, *solver_, config_.batch, {.rows = rows, .votes = config_.votes}, {}, communicator_);
    validation_ = results["lm_loss"];
    return results;
  }

  const PuzzleConfig& config_;
  const Communicator& communicator_;
  const puzzles::Dataset& data_;
  const Listener& listener_;
  torch::Device device_;
  OwnCudaStream cuda_stream_;
  std::shared_ptr<Recursive> model_;
  PuzzleFiles files_;
  RecursiveStep training_;
  puzzles::TrainingOrder order_;
  Tensor x_, y_, rates_, numbers_;  // on the device, at fixed addresses
  RecordedWork work_, update_work_;
  std::unique_ptr<PuzzleSolver> solver_;
  int64_t step_ = 0, timed_steps_ = 0;
  int64_t saved_step_ = 0;  // of the newest checkpoint; 0: there is none
  bool starting_ = false;   // rank 0's files have not replaced the old run's yet
  Clock::time_point start_ = Clock::now();
  double before_ = 0, validation_ = 0, training_seconds_ = 0;
  nlohmann::json last_line_;
};

}  // namespace

nlohmann::json PuzzleResult::to_json() const {
  return {{"steps", steps},          {"parameters", parameters},
          {"seconds", seconds},      {"step_seconds", step_seconds},
          {"diverged", diverged},    {"training", training},
          {"evaluation", evaluation}};
}

void require_shares(const PuzzleConfig& config, int64_t processes) {
  require_divisible(processes, config.batch, config.micro_batch > 0 ? config.micro_batch : 1,
                    "rows of micro_batch");
}

PuzzleResult train_puzzles(PuzzleConfig config, const puzzles::Dataset& data,
                           const RunFolder& folder, const Listener& listener,
                           const Communicator& communicator) {
  config.model.identifiers = data.info().identifiers;
  config.check();
  require_shares(config, communicator.size());
  if (config.steps == 0)
    config.steps =
        puzzles::TrainingOrder(data.train(), static_cast<uint64_t>(config.seed), config.batch)
            .planned_steps(config.epochs);
  require(config.steps >= 1, "train", "{} epochs of {} rows are less than one batch of {}",
          config.epochs, data.train().rows(), config.batch);
  return PuzzleRun(config, data, folder, listener, communicator).execute();
}

}  // namespace geores
