#include "geores/train/trainer.h"

#include <chrono>
#include <cmath>
#include <filesystem>
#include <limits>

#include "geores/base/error.h"
#include "geores/base/file.h"
#include "geores/data/batch_sampler.h"
#include "geores/modules/seeding.h"
#include "geores/ops/run/precision.h"
#include "geores/ops/training/loss.h"
#include "geores/storage/state_file.h"
#include "geores/train/checkpoint.h"
#include "geores/train/device_loop.h"
#include "geores/train/evaluation.h"
#include "geores/train/metrics_log.h"
#include "geores/train/schedule.h"
#include "geores/train/training_step.h"

namespace geores {
namespace {

namespace fs = std::filesystem;

enum Stream : uint64_t { kTrainingBatches = 0, kEvaluationBatches = 1 };

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

torch::Device device_of(const TrainConfig& config) {
  if (config.device == "cpu") return torch::kCPU;
  require(torch::cuda::is_available(), "train", "device cuda was asked for, but there is none");
  return torch::kCUDA;
}

// Refuses to mix runs: an existing one is continued with the same configuration, or replaced.
// Returns false when there is a finished run to be left alone.
void prepare_folder(const RunFolder& folder, const TrainConfig& config) {
  const auto config_path = fs::path(folder.path) / "config.json";
  const auto exists = fs::exists(config_path);
  if (folder.resume) {
    require(exists, "train", "{} holds no run to resume", folder.path);
    const auto before = read_run_config(folder.path).write(), now = config.write();
    for (const auto& [key, value] : now.items())
      require(before.contains(key) && before[key] == value, "train",
              "cannot resume {} with another '{}': the run has {}, asked for {}", folder.path, key,
              before.value(key, nlohmann::json()).dump(), value.dump());
    return;
  }
  require(!exists || folder.overwrite, "train",
          "{} already holds a run; continue it with --resume or replace it with --overwrite",
          folder.path);
  std::error_code error;
  if (exists)
    for (const auto* name : {"result.json", "metrics.jsonl", "checkpoint.safetensors",
                             "checkpoint.previous.safetensors", "best.safetensors"})
      fs::remove(fs::path(folder.path) / name, error);
  fs::create_directories(folder.path, error);
  require(!error, "train", "cannot create {}: {}", folder.path, error.message());
  write_file_atomically(config_path, config.write().dump(2) + "\n");
}

class Run {
 public:
  Run(const TrainConfig& config, const Dataset& dataset, const RunFolder& folder,
      const Listener& listener)
      : config_(config),
        folder_(folder),
        listener_(listener),
        device_(device_of(config)),
        stream_(device_),
        data_{.train_x = dataset.train_x.to(device_),
              .train_y = dataset.train_y.to(device_),
              .validation_x = dataset.validation_x.to(device_),
              .validation_y = dataset.validation_y.to(device_)},
        train_sampler_(static_cast<uint64_t>(config.seed), data_.train_x.size(0)),
        validation_sampler_(static_cast<uint64_t>(config.seed), data_.validation_x.size(0)),
        model_(make_model(config, dataset, device_)),
        training_(*model_, {.weight_decay = config.weight_decay, .clip = config.clip}),
        schedule_{.peak = config.lr,
                  .floor = config.min_lr,
                  .warmup = config.warmup,
                  .total = config.steps} {
    model_->set_recompute(config.checkpoint_blocks);
    if (device_.is_cuda()) set_float32_products(precision_from(config.precision));
  }

  TrainResult execute() {
    if (!in_memory()) {
      if (folder_.resume)
        load_checkpoint(folder_.path, *model_, training_, position_, listener_.notice);
      metrics_ = MetricsLog(path("metrics.jsonl"), position_.step);
    }
    if (device_.is_cuda()) make_device_loop();
    const Stopwatch watch;
    TrainResult result{.parameters = parameter_count(*model_)};
    for (; position_.step < config_.steps; ++position_.step) {
      const auto step = position_.step;
      if (!in_memory() && step > 0 && step % config_.checkpoint_interval == 0)
        save_checkpoint(folder_.path, *model_, training_, position_);
      if (step % config_.eval_interval == 0) evaluate_and_keep_best(step);
      if (!train_one(step, watch)) {
        result.diverged = true;
        break;
      }
    }
    result.steps = position_.step;
    if (!in_memory() && !result.diverged)
      save_checkpoint(folder_.path, *model_, training_, position_);
    finish(result);
    result.seconds = watch.seconds();
    if (!in_memory()) write_file_atomically(path("result.json"), result.to_json().dump(2) + "\n");
    return result;
  }

 private:
  static std::shared_ptr<Transformer> make_model(const TrainConfig& config, const Dataset& dataset,
                                                 const torch::Device& device) {
    auto model = with_seed(
        config.seed, [&] { return std::make_shared<Transformer>(model_config(config, dataset)); });
    model->to(device);
    return model;
  }

  bool in_memory() const { return folder_.path.empty(); }
  std::string path(const char* name) const { return (fs::path(folder_.path) / name).string(); }

  void make_device_loop() {
    std::vector<std::vector<int64_t>> batches;
    for (int64_t step = 0; step < config_.steps; ++step)
      batches.push_back(train_sampler_.indices(kTrainingBatches, step, config_.batch));
    loop_ =
        std::make_unique<DeviceLoop>(*model_, training_, config_, data_, batches, position_.step);
  }

  std::pair<Tensor, Tensor> draw(const std::vector<int64_t>& rows, const Tensor& x,
                                 const Tensor& y) const {
    const auto indices = torch::tensor(rows, torch::kInt64).to(device_);
    return {x.index_select(0, indices), y.index_select(0, indices)};
  }

  // Every evaluation has its own draws: a pure function of seed, step and batch.
  std::vector<int64_t> evaluation_batch(int64_t step, int64_t i) const {
    return validation_sampler_.indices(
        kEvaluationBatches, step * (config_.final_eval_batches + config_.eval_batches) + i,
        config_.batch);
  }

  // Mean loss over random batches, never in bfloat16.
  double evaluate(int64_t step, int64_t batches) {
    std::vector<std::vector<int64_t>> drawn;
    for (int64_t i = 0; i < batches; ++i) drawn.push_back(evaluation_batch(step, i));
    if (loop_) return loop_->evaluate(drawn);
    torch::NoGradGuard no_grad;
    double total = 0;
    for (const auto& [rows, weights] : evaluation_batches(drawn, data_.validation_y)) {
      const auto [x, y] = draw(rows, data_.validation_x, data_.validation_y);
      Trace trace;
      const auto shares = torch::tensor(weights, torch::kFloat64).to(device_);
      total += weighted_loss(model_->forward(x, trace), y, shares).item<double>();
    }
    return total;
  }

  // Mean γ and β of each operator on one batch, as far as the connection has them.
  void add_probes(int64_t step, nlohmann::json& line) {
    torch::NoGradGuard no_grad;
    const auto [x, y] = draw(validation_sampler_.indices(kEvaluationBatches, step, config_.batch),
                             data_.validation_x, data_.validation_y);
    Trace trace(/*probing=*/true);
    model_->forward(x.slice(0, 0, 4), trace);
    for (const auto* name : {"gamma", "beta"}) {
      auto values = nlohmann::json::array();
      for (const auto& [probe, tensor] : trace.probes())
        if (probe == name) values.push_back(tensor.mean().item<double>());
      if (!values.empty()) line[name] = values;
    }
  }

  void evaluate_and_keep_best(int64_t step) {
    validation_ = evaluate(step, config_.eval_batches);
    nlohmann::json line = {{"step", step}, {"validation", validation_}};
    add_probes(step, line);
    metrics_.write(line);
    if (!(validation_ < position_.best_validation)) return;
    position_.best_validation = validation_;
    position_.best_step = step;
    if (in_memory()) {
      best_ = training_.parameters().values().clone();
      return;
    }
    SafetensorsWriter writer;
    writer.metadata("step", std::to_string(step));
    add_state(writer, *model_);
    writer.save(path("best.safetensors"));
  }

  bool is_logged(int64_t step) const {
    return step % config_.log_interval == 0 || step + 1 == config_.steps;
  }

  // False when the loss is not a number any more; the weights are then those before the step.
  bool train_one(int64_t step, const Stopwatch& watch) {
    if (loop_) return train_one_on_device(step, watch);
    const auto [x, y] = draw(train_sampler_.indices(kTrainingBatches, step, config_.batch),
                             data_.train_x, data_.train_y);
    const auto before = training_.parameters().values().clone();
    StepResult done;
    {
      const ExecutionScope precision(precision_from(config_.precision));
      done = training_.run(x, y, schedule_.at(step), config_.accumulate);
    }
    const auto loss = done.loss.item<double>(), norm = done.gradient_norm.item<double>();
    if (!std::isfinite(loss) || !std::isfinite(norm)) {
      training_.parameters().values().copy_(before);
      report_divergence(step, loss);
      return false;
    }
    position_.train_loss = loss;
    if (is_logged(step)) log_step(step, loss, norm, watch);
    return true;
  }

  // Reading a number back makes the host wait: only when it is logged. After a divergence the
  // checkpoint has to do.
  bool train_one_on_device(int64_t step, const Stopwatch& watch) {
    loop_->step();
    if (!is_logged(step)) return true;
    const auto numbers = loop_->numbers(step);
    if (!std::isfinite(numbers.loss) || !std::isfinite(numbers.gradient_norm)) {
      report_divergence(step, numbers.loss);
      return false;
    }
    position_.train_loss = numbers.loss;
    log_step(step, numbers.loss, numbers.gradient_norm, watch);
    return true;
  }

  void report_divergence(int64_t step, double loss) {
    if (listener_.notice)
      listener_.notice(fmt::format(
          "the loss is {} at step {}: stopped, the last checkpoint is kept", loss, step));
  }

  void log_step(int64_t step, double loss, double norm, const Stopwatch& watch) {
    const auto seconds = watch.seconds();
    const auto tokens =
        static_cast<double>((step - logged_step_) * config_.batch * data_.train_x.size(1));
    metrics_.write({{"step", step},
                    {"loss", loss},
                    {"lr", schedule_.at(step)},
                    {"grad_norm", norm},
                    {"param_norm", training_.parameters().values().norm().item<double>()},
                    {"tokens_per_second",
                     seconds > logged_seconds_ ? tokens / (seconds - logged_seconds_) : 0.0}});
    logged_step_ = step;
    logged_seconds_ = seconds;
    if (listener_.progress)
      listener_.progress({.step = step + 1,
                          .total = config_.steps,
                          .loss = loss,
                          .validation = validation_,
                          .seconds = seconds});
  }

  void finish(TrainResult& result) {
    result.train_loss = position_.train_loss;
    result.best_step = position_.best_step;
    if (result.diverged) {
      result.best_validation = position_.best_validation;
      result.final_validation = result.exact_validation = result.exact_best =
          std::numeric_limits<double>::quiet_NaN();
      return;
    }
    result.final_validation = evaluate(config_.steps, config_.final_eval_batches);
    result.exact_validation =
        exact_loss(*model_, data_.validation_x, data_.validation_y, config_.batch);
    result.best_validation = position_.best_validation;
    if (in_memory()) {
      torch::NoGradGuard no_grad;
      training_.parameters().values().copy_(best_);
    } else {
      load_state(*model_, Safetensors::load(path("best.safetensors")), path("best.safetensors"));
    }
    result.exact_best = exact_loss(*model_, data_.validation_x, data_.validation_y, config_.batch);
  }

  const TrainConfig& config_;
  const RunFolder& folder_;
  const Listener& listener_;
  torch::Device device_;
  DeviceStream stream_;
  DeviceData data_;
  BatchSampler train_sampler_, validation_sampler_;
  std::shared_ptr<Transformer> model_;
  TrainingStep training_;
  std::unique_ptr<DeviceLoop> loop_;  // on a GPU
  Schedule schedule_;
  RunPosition position_;
  MetricsLog metrics_;
  Tensor best_;  // of a run without a folder
  double validation_ = 0;
  int64_t logged_step_ = 0;
  double logged_seconds_ = 0;
};

nlohmann::json number_or_null(double value) {
  return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json();
}

}  // namespace

nlohmann::json TrainResult::to_json() const {
  return {{"steps", steps},
          {"best_validation", number_or_null(best_validation)},
          {"best_step", best_step},
          {"final_validation", number_or_null(final_validation)},
          {"exact_validation", number_or_null(exact_validation)},
          {"exact_best", number_or_null(exact_best)},
          {"train_loss", number_or_null(train_loss)},
          {"seconds", seconds},
          {"diverged", diverged},
          {"parameters", parameters}};
}

TrainResult train(const TrainConfig& config, const Dataset& dataset, const RunFolder& folder,
                  const Listener& listener) {
  require(config.batch % config.accumulate == 0, "train",
          "batch {} is not divisible by accumulate {}", config.batch, config.accumulate);
  require(config.precision != "tf32" || config.device == "cuda", "train",
          "precision tf32 needs device cuda; a CPU trains in fp32 and bf16");
  if (!folder.path.empty()) prepare_folder(folder, config);
  return Run(config, dataset, folder, listener).execute();
}

double exact_loss(Transformer& model, const Tensor& x, const Tensor& y, int64_t batch) {
  torch::NoGradGuard no_grad;
  double total = 0;
  int64_t counted = 0;
  for (int64_t begin = 0; begin < x.size(0); begin += batch) {
    const auto end = std::min(begin + batch, x.size(0));
    const auto target = y.slice(0, begin, end);
    Trace trace;
    const auto loss = task_loss(model.forward(x.slice(0, begin, end), trace), target);
    const auto count = are_classes(target) ? (target >= 0).sum().item<int64_t>() : target.numel();
    total += loss.item<double>() * static_cast<double>(count);
    counted += count;
  }
  return total / static_cast<double>(counted);
}

TrainConfig read_run_config(const std::string& path) {
  const auto file = (fs::path(path) / "config.json").string();
  require(fs::exists(file), "run", "{} holds no run (no config.json)", path);
  TrainConfig config;
  config.read(parse_json(read_text_file(file), file), file);
  return config;
}

LoadedRun load_run(const std::string& path, const std::string& cache) {
  LoadedRun run;
  run.config = read_run_config(path);
  run.dataset = load_dataset(run.config.task, cache);
  run.model = std::make_shared<Transformer>(model_config(run.config, run.dataset));
  const auto best = fs::path(path) / "best.safetensors";
  if (fs::exists(best)) {
    const auto file = Safetensors::load(best);
    load_state(*run.model, file, best.string());
    if (const auto step = file.metadata().find("step"); step != file.metadata().end())
      run.step = std::stoll(step->second);
    return run;
  }
  TrainingStep training(*run.model, {});
  RunPosition position;
  require(load_checkpoint(path, *run.model, training, position, {}), "run", "{} has no weights yet",
          path);
  run.step = position.step;
  return run;
}

}  // namespace geores
