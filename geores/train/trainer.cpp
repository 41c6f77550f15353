#include "geores/train/trainer.h"

#include <bit>
#include <chrono>
#include <cmath>
#include <limits>

#include "geores/base/error.h"
#include "geores/modules/seeding.h"
#include "geores/ops/run/device_named.h"
#include "geores/ops/run/on_gpu.h"
#include "geores/ops/run/precision.h"
#include "geores/train/communication/shared_run.h"
#include "geores/train/device/device_loop.h"
#include "geores/train/divergence.h"
#include "geores/train/loop/run_evaluation.h"
#include "geores/train/loop/training_batches.h"
#include "geores/train/run/made_with.h"
#include "geores/train/training_step.h"

namespace geores {
namespace {

// In a group, the interval in steps at which the processes compare their weights.
constexpr int64_t kComparisonInterval = 100;

// Continues from the seconds of earlier legs.
class Stopwatch {
 public:
  explicit Stopwatch(double before) : before_(before) {}
  double seconds() const {
    return before_ +
           std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  double before_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// The number of scored positions of each training sequence, float64; undefined where all are equal.
Tensor uneven_terms(const Dataset& dataset) {
  if (!dataset.tokens() || dataset.text() || dataset.puzzle_set) return {};
  const auto counts = (dataset.train_y >= 0).sum(1);
  if (counts.numel() == 0 || (counts == counts[0]).all().item<bool>()) return {};
  return counts.to(torch::kFloat64);
}

nlohmann::json facts_of(const Dataset& dataset) {
  nlohmann::json facts = dataset.origin.facts;
  if (dataset.puzzle_set) return facts;
  facts["train shape"] = dataset.train_x.sizes().vec();
  facts["validation shape"] = dataset.validation_x.sizes().vec();
  return facts;
}

class Run {
 public:
  Run(const TrainConfig& config, const Dataset& dataset, const RunFolder& folder,
      const Listener& listener, const Catalogue& catalogue, DeviceLoopOn device_loop,
      const Communicator& communicator)
      : config_(config),
        communicator_(communicator),
        listener_(listener),
        catalogue_(catalogue),
        device_(device_named(config.device, "train")),
        cuda_stream_(device_),
        dataset_(dataset),
        data_(data_on(device_, dataset)),
        batches_(training_batches(config, dataset, data_)),
        model_(make_model_on_device(dataset)),
        training_(*model_, optimizer_options(config),
                  model_->initial_carry(config.batch, config.seed), communicator),
        parts_(config.parts(config.batch / communicator.size())),
        terms_(communicator.size() * parts_ > 1 ? uneven_terms(dataset) : Tensor()),
        files_(agreed_folder(folder), config, catalogue, input_shape(dataset), dataset.origin,
               *model_, training_, listener.notice),
        starting_(files_.is_starting()),
        position_(agreed_position()),
        watch_(files_.metrics().last_kept("seconds", 0)),
        saved_step_(position_.step),
        checked_step_(position_.step),
        logged_step_(position_.step),
        logged_seconds_(watch_.seconds()) {
    model_->set_recompute(recompute_from(config.checkpoint));
    if (on_gpu(device_)) set_float32_products(precision_from(config.precision));
    if (on_gpu(device_) || device_loop == DeviceLoopOn::every_device) make_device_loop();
    const RunParts parts{.config = config,
                         .dataset = dataset,
                         .data = data_,
                         .communicator = communicator,
                         .listener = listener,
                         .catalogue = catalogue,
                         .model = *model_,
                         .training = training_,
                         .files = files_,
                         .position = position_,
                         .device_loop = loop_.get()};
    evaluation_ = dataset.puzzle_set ? puzzle_evaluation(parts) : sequence_evaluation(parts);
  }

  TrainResult execute() {
    TrainResult result{.parameters = parameter_count(*model_)};
    for (; position_.step < config_.steps; ++position_.step) {
      const auto step = position_.step;
      result.interrupted = stop_is_asked();
      if (result.interrupted) break;
      if (checkpoint_is_due() && !save_checkpoint()) result.diverged = true;
      if (!result.diverged && evaluation_->is_due(step)) evaluation_->evaluate(step);
      if (!result.diverged && !timed_step(step)) result.diverged = true;
      if (result.diverged) break;
    }
    if (!result.diverged) result.diverged = !save_checkpoint();
    result.interrupted = result.interrupted && !result.diverged;
    result.steps = position_.step;
    if (result.interrupted) return result;
    finish(result);
    result.seconds = watch_.seconds();
    result.step_seconds = timed_steps_ > 0 ? step_seconds_ / double(timed_steps_) : 0;
    if (communicator_.is_first()) {
      auto written = result.to_json(config_.method());
      written.update(made_with(config_.device));
      files_.write_result(written);
    }
    return result;
  }

 private:
  // Only rank 0 has files, and only once all processes have agreed on the run.
  RunFolder agreed_folder(const RunFolder& folder) const {
    require_same_run(communicator_, config_.write(catalogue_.models), facts_of(dataset_), *model_);
    return communicator_.is_first() ? folder : RunFolder{};
  }

  // Broadcasts rank 0's progress and the state that it has read.
  RunPosition agreed_position() {
    auto position = files_.position();
    if (!communicator_.is_group()) return position;
    auto& optimizer = training_.optimizer();
    std::vector<int64_t> counts = {position.step,
                                   position.best_step,
                                   std::bit_cast<int64_t>(position.best_validation),
                                   std::bit_cast<int64_t>(position.train_loss),
                                   optimizer.steps(),
                                   starting_};
    broadcast_counts(communicator_, counts);
    position = {.step = counts[0],
                .best_step = counts[1],
                .best_validation = std::bit_cast<double>(counts[2]),
                .train_loss = std::bit_cast<double>(counts[3])};
    optimizer.steps() = counts[4];
    starting_ = counts[5] != 0;
    auto tensors = tensors_of(*model_);
    tensors.insert(tensors.end(), {optimizer.first_moment(), optimizer.second_moment()});
    if (training_.average().defined()) tensors.push_back(training_.average());
    for (const auto& [name, tensor] : training_.carry().all()) tensors.push_back(tensor);
    broadcast_all(communicator_, tensors);
    return position;
  }

  // The rank that received the signal announces it in the next all-reduce, so all stop after the
  // same step.
  bool stop_is_asked() {
    const bool asked = listener_.stop && listener_.stop();
    if (!communicator_.is_group()) return asked;
    if (asked) training_.sums().ask_to_stop();
    return stop_agreed_;
  }

  // Runs after a step; on a GPU only after steps whose numbers are read back.
  void update_stop_flag() {
    if (communicator_.is_group()) stop_agreed_ = training_.sums().stop_was_asked();
  }

  void compare_weights(int64_t steps) {
    if (communicator_.size() == 1 || steps % kComparisonInterval != 0) return;
    auto tensors = tensors_of(*model_);
    if (training_.average().defined()) tensors.push_back(training_.average());
    require_same_values(communicator_, tensors, fmt::format("after step {}", steps));
  }

  std::shared_ptr<Model> make_model_on_device(const Dataset& dataset) const {
    auto model = with_seed(config_.seed, [&] {
      return make_model(config_.model, input_shape(dataset), catalogue_.models);
    });
    model->to(device_);
    return model;
  }

  void make_device_loop() {
    const auto batch_of = [this](int64_t step) {
      const auto batch = batches_->rows(step);
      LoopBatch taken{.rows = own_rows(communicator_, batch), .terms = {}};
      if (terms_.defined()) taken.terms = terms_of(batch).item<double>();
      if (batches_->made_on_host()) taken.made = batches_->batch(taken.rows);
      return taken;
    };
    loop_ =
        std::make_unique<DeviceLoop>(*model_, training_, config_, data_, batch_of, position_.step);
  }

  // The terms of the whole batch; undefined where all sequences have the same number.
  Tensor terms_of(const std::vector<int64_t>& batch) const {
    if (!terms_.defined()) return {};
    return terms_.index_select(0, torch::tensor(batch, torch::kInt64)).sum().view({1});
  }

  // A new run writes its first checkpoint after one step, when it is known to work, and then
  // replaces an older run.
  bool checkpoint_is_due() const {
    return position_.step > 0 && (position_.step % config_.checkpoint_interval == 0 || starting_);
  }

  // False if the run has diverged: a checkpoint holds finite values only.
  bool save_checkpoint() {
    const auto step = position_.step;
    if (step == saved_step_) return true;
    if (!steps_are_finite(step)) return false;
    if (!is_finite(training_)) {
      report_divergence(fmt::format("the weights are not finite after step {}", step - 1));
      return false;
    }
    training_.gather_carry();
    if (communicator_.is_first()) files_.save_checkpoint(*model_, training_, position_);
    starting_ = false;
    saved_step_ = step;
    return true;
  }

  bool is_logged(int64_t step) const {
    return step % config_.log_interval == 0 || step + 1 == config_.steps;
  }

  bool timed_step(int64_t step) {
    const Stopwatch watch(step_seconds_);
    const bool taken = train_one(step);
    step_seconds_ = watch.seconds();
    ++timed_steps_;
    return taken;
  }

  // False when loss or gradient is not finite: such a step is not taken.
  bool train_one(int64_t step) {
    if (loop_) return train_one_on_device(step);
    const auto batch = batches_->rows(step);
    const auto [x, y] = batches_->batch(own_rows(communicator_, batch));
    StepResult done;
    training_.set_pass(config_.seed, torch::full({1}, step, torch::kInt64));
    {
      const ExecutionScope precision(precision_from(config_.precision));
      done = training_.run(x, y, learning_rates(config_, step), parts_, terms_of(batch));
    }
    update_stop_flag();
    const auto loss = done.loss.item<double>(), norm = done.gradient_norm.item<double>();
    if (!std::isfinite(loss) || !std::isfinite(norm)) {
      report_divergence(cause_of_divergence(step, loss, norm));
      return false;
    }
    position_.train_loss = loss;
    compare_weights(step + 1);
    if (is_logged(step)) log_step(step, loss, norm);
    return true;
  }

  // Reading a number back synchronises with the device, so it happens only for steps that are
  // logged or saved. After a divergence the checkpoint is the only recovery.
  bool train_one_on_device(int64_t step) {
    loop_->step();
    compare_weights(step + 1);
    if (!is_logged(step)) return true;
    if (!steps_are_finite(step + 1)) return false;
    update_stop_flag();
    const auto numbers = loop_->numbers(step);
    position_.train_loss = numbers.loss;
    log_step(step, numbers.loss, numbers.gradient_norm);
    return true;
  }

  // The steps before `end` on a device that have not been checked.
  bool steps_are_finite(int64_t end) {
    if (!loop_) return true;
    const auto bad = loop_->first_not_finite(checked_step_, end);
    checked_step_ = end;
    if (!bad) return true;
    position_.step = *bad;
    const auto numbers = loop_->numbers(*bad);
    report_divergence(cause_of_divergence(*bad, numbers.loss, numbers.gradient_norm));
    return false;
  }

  void report_divergence(const std::string& cause) {
    if (listener_.notice) listener_.notice(divergence_notice(cause, saved_step_));
  }

  void log_step(int64_t step, double loss, double norm) {
    const auto measured = take_metrics(step);
    const auto seconds = watch_.seconds();
    if (communicator_.is_first()) write_step(step, loss, norm, seconds, measured);
    logged_step_ = step + 1;
    logged_seconds_ = seconds;
    if (listener_.progress)
      listener_.progress({.step = step + 1,
                          .total = config_.steps,
                          .loss = loss,
                          .validation = evaluation_->validation(),
                          .seconds = seconds});
  }

  // The model's measurements of its passes since the last line, over all processes. The number of
  // steps is a function of the step, so a resumed run writes the same lines.
  nlohmann::json take_metrics(int64_t step) {
    auto& carry = training_.carry();
    if (!carry.contains("metrics")) return nlohmann::json::object();
    auto sums = carry.part(communicator_.rank(), communicator_.size()).at("metrics").sum(0);
    communicator_.sum(sums);
    communicator_.settle();
    carry.set("metrics", torch::zeros_like(carry.at("metrics")));
    const auto steps =
        step == 0 ? 1 : step - (step - 1) / config_.log_interval * config_.log_interval;
    return model_->metrics_of(sums.to(torch::kCPU), steps * config_.batch);
  }

  void write_step(int64_t step, double loss, double norm, double seconds,
                  const nlohmann::json& measured) {
    auto line = read_meters(
        catalogue_.meters,
        StepReading{.step = step,
                    .loss = loss,
                    .gradient_norm = norm,
                    .learning_rate = learning_rates(config_, step).parameters,
                    .tokens = (step + 1 - logged_step_) * config_.batch * dataset_.length(),
                    .elapsed = seconds - logged_seconds_,
                    .seconds = seconds,
                    .model = *model_,
                    .parameters = training_.parameters().values(),
                    .carry = training_.carry()});
    line.update(measured);
    if (const auto epoch = batches_->epoch(step)) line["epoch"] = *epoch;
    files_.write_metrics(line);
    last_line_ = std::move(line);
  }

  void finish(TrainResult& result) {
    result.train_loss = position_.train_loss;
    result.best_step = position_.best_step;
    result.best_validation = position_.best_validation;
    if (!result.diverged) evaluation_->finish(result);
    if (result.diverged)
      result.final_validation = result.exact_validation = result.exact_best =
          std::numeric_limits<double>::quiet_NaN();
    for (const auto* time : {"seconds", "tokens_per_second"}) last_line_.erase(time);
    result.training = last_line_;
  }

  const TrainConfig& config_;
  const Communicator& communicator_;
  const Listener& listener_;
  const Catalogue& catalogue_;
  torch::Device device_;
  OwnCudaStream cuda_stream_;
  const Dataset& dataset_;
  DeviceData data_;
  std::unique_ptr<TrainingBatches> batches_;
  std::shared_ptr<Model> model_;
  TrainingStep training_;
  std::unique_ptr<DeviceLoop> loop_;  // on a GPU
  int64_t parts_;                     // micro-batches of a step
  Tensor terms_;  // scored positions of each training sequence, where they differ
  RunFiles files_;
  bool starting_;             // rank 0's folder holds nothing of this run yet
  bool stop_agreed_ = false;  // in a group
  RunPosition position_;
  Stopwatch watch_;
  int64_t saved_step_;    // of the newest checkpoint; 0: there is none
  int64_t checked_step_;  // on a device: steps before it are known to be finite
  int64_t logged_step_;   // number of steps at the last line
  double logged_seconds_;
  double step_seconds_ = 0;  // of the steps of this leg
  int64_t timed_steps_ = 0;
  nlohmann::json last_line_ = nlohmann::json::object();
  std::unique_ptr<RunEvaluation> evaluation_;
};

nlohmann::json number_or_null(double value) {
  return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json();
}

}  // namespace

nlohmann::json TrainResult::to_json(Method method) const {
  nlohmann::json object = {
      {"steps", steps}, {"seconds", seconds}, {"diverged", diverged}, {"parameters", parameters}};
  if (method == Method::puzzles)
    object.update(
        {{"step_seconds", step_seconds}, {"training", training}, {"evaluation", evaluation}});
  else
    object.update({{"best_validation", number_or_null(best_validation)},
                   {"best_step", best_step},
                   {"final_validation", number_or_null(final_validation)},
                   {"exact_validation", number_or_null(exact_validation)},
                   {"exact_best", number_or_null(exact_best)},
                   {"train_loss", number_or_null(train_loss)}});
  return object;
}

TrainResult train(const TrainConfig& given, const Dataset& dataset, const RunFolder& folder,
                  const Listener& listener, const Catalogue& catalogue, DeviceLoopOn device_loop,
                  const Communicator& communicator) {
  auto config = given;
  complete_from_data(config, dataset);
  require_trainable(config, communicator.size());
  return Run(config, dataset, folder, listener, catalogue, device_loop, communicator).execute();
}

}  // namespace geores
