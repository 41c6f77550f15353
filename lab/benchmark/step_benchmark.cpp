#include "lab/benchmark/step_benchmark.h"

#include <ATen/record_function.h>

#include <algorithm>
#include <barrier>
#include <cmath>
#include <exception>
#include <map>
#include <numeric>
#include <thread>

#include "geores/data/batch_sampler.h"
#include "geores/ops/run/on_gpu.h"
#include "geores/ops/run/precision.h"
#include "geores/train/device/device_loop.h"
#include "lab/benchmark/seconds_of.h"

namespace geores {
namespace {

// Told of every allocation of a CPU tensor while a DebugInfoGuard holds it.
class MemoryCounter : public c10::MemoryReportingInfoBase {
 public:
  // LibTorch 1.13 reports totals as int64_t, 2.x as size_t; one of the two overrides.
  void reportMemoryUsage(void*, int64_t size, int64_t, int64_t, c10::Device) { count(size); }
  void reportMemoryUsage(void*, int64_t size, size_t, size_t, c10::Device) { count(size); }
  bool memoryProfilingEnabled() const override { return true; }

  StepMemory result() const { return memory_; }

 private:
  void count(int64_t size) {
    if (size > 0) memory_.allocated += size;
    in_use_ += size;
    memory_.peak = std::max(memory_.peak, in_use_);
  }

  StepMemory memory_;
  int64_t in_use_ = 0;
};

struct Product {
  std::vector<int64_t> left, left_strides, right, right_strides;
  torch::ScalarType dtype;

  bool batched() const { return left.size() == 3; }
  auto operator<=>(const Product&) const = default;
};

std::map<Product, int64_t>* recorded = nullptr;  // how often each product was called

std::unique_ptr<at::ObserverContext> record(const at::RecordFunction& function) {
  const std::string name = function.name();
  const size_t first = name == "aten::addmm" || name == "aten::baddbmm" ? 1 : 0;
  if (first == 0 && name != "aten::mm" && name != "aten::bmm") return nullptr;
  const auto inputs = function.inputs();
  const auto a = inputs[first].toTensor(), b = inputs[first + 1].toTensor();
  // One small matrix per token is a connection's operator, not a matrix product of the model.
  if (a.dim() == 3 && a.size(1) * a.size(2) * b.size(2) < 16384) return nullptr;
  ++(*recorded)[{a.sizes().vec(), a.strides().vec(), b.sizes().vec(), b.strides().vec(),
                 a.scalar_type()}];
  return nullptr;
}

Tensor random_with(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides,
                   torch::ScalarType dtype) {
  return torch::empty_strided(sizes, strides, dtype).normal_();
}

std::pair<Tensor, Tensor> random_batch(const Model& model, int64_t batch, int64_t length) {
  torch::manual_seed(1);
  const auto input = model.input();
  const auto one = [&] {
    return input.tokens() ? torch::randint(input.vocabulary, {batch, length}, torch::kInt64)
                          : torch::randn({batch, length, input.width});
  };
  auto x = one();
  return {x, one()};
}

}  // namespace

StepBenchmark::StepBenchmark(std::shared_ptr<Model> model, int64_t batch, int64_t length)
    : model_(std::move(model)), step_(*model_, {}, model_->initial_carry(batch)) {
  std::tie(x_, y_) = random_batch(*model_, batch, length);
}

Explanation explain_step(const MakeModel& make, int64_t batch, int64_t length,
                         const std::string& precision, const std::string& device) {
  const torch::Device where(device);
  const auto model = make();
  model->to(where);
  TrainingStep step(*model, {}, model->initial_carry(batch));
  const auto [x, y] = random_batch(*model, batch, length);
  set_float32_products(precision_from(precision));
  Explanation explanation;
  auto explained = execution();
  explained.precision = precision_from(precision);
  explained.explanation = &explanation;
  const ExecutionScope scope(explained);
  step.run(x.to(where), y.to(where), 1e-4);
  return explanation;
}

double StepBenchmark::seconds(Form form, const std::string& precision) {
  const ExecutionScope scope(form);
  const ExecutionScope products(precision_from(precision));
  return seconds_of([&] { step_.run(x_, y_, 1e-4); });
}

StepMemory StepBenchmark::memory(Form form) {
  const ExecutionScope scope(form);
  const auto counter = std::make_shared<MemoryCounter>();
  {
    const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, counter);
    step_.run(x_, y_, 1e-4);
  }
  return counter->result();
}

ProductTimes StepBenchmark::products(int repeats) {
  std::map<Product, int64_t> calls;
  recorded = &calls;
  const auto handle = at::addThreadLocalCallback(
      at::RecordFunctionCallback(record).needsInputs(true).scopes({at::RecordScope::FUNCTION}));
  seconds(Form::stock);
  at::removeCallback(handle);
  recorded = nullptr;

  const torch::NoGradGuard no_grad;
  ProductTimes times;
  for (const auto& [product, count] : calls) {
    const auto a = random_with(product.left, product.left_strides, product.dtype);
    const auto b = random_with(product.right, product.right_strides, product.dtype);
    auto out = product.batched() ? torch::bmm(a, b) : torch::mm(a, b);
    auto best = std::numeric_limits<double>::infinity();
    for (int i = 0; i < repeats; ++i)
      best = std::min(best, seconds_of([&] {
                        product.batched() ? torch::bmm_out(out, a, b) : torch::mm_out(out, a, b);
                      }));
    (product.batched() ? times.attention : times.projections) += best * static_cast<double>(count);
    times.count += count;
  }
  return times;
}

namespace {

// A run on random data on a GPU, in the thread that makes it.
class DeviceRun {
 public:
  static constexpr int64_t kStepsBefore = 10;  // recording included

  DeviceRun(const MakeModel& make, int64_t batch, int64_t length, const std::string& precision,
            int64_t steps)
      : model_(make()) {
    constexpr int64_t sequences = 512;
    training_.batch = batch;
    training_.steps = kStepsBefore + steps;
    training_.precision = precision;
    const auto input = model_->input();
    const auto random = [&] {
      const auto drawn = input.tokens()
                             ? torch::randint(input.vocabulary, {sequences, length}, torch::kInt64)
                             : torch::randn({sequences, length, input.width});
      return drawn.to(device_);
    };
    data_ = {random(), random(), random(), random()};
    model_->to(device_);
    step_ =
        std::make_unique<TrainingStep>(*model_, OptimizerOptions(), model_->initial_carry(batch));
    const auto batches = [sampler = BatchSampler(1, sequences), batch](int64_t step) {
      return LoopBatch{.rows = sampler.indices(0, step, batch), .terms = {}};
    };
    loop_ = std::make_unique<DeviceLoop>(*model_, *step_, training_, data_, batches, 0);
  }

  void start_steps(int64_t count) {
    for (int64_t i = 0; i < count; ++i) loop_->step();
    started_ += count;
  }
  // For its own steps only: a GPU must not be waited for while another thread records.
  void wait() const { loop_->numbers(started_ - 1); }

  int64_t kernels() const { return loop_->kernels(); }
  int64_t parameters() const { return parameter_count(*model_); }

 private:
  const torch::Device device_{torch::kCUDA};
  const OwnCudaStream cuda_stream_{device_};
  TrainConfig training_;
  DeviceData data_;
  std::shared_ptr<Model> model_;
  std::unique_ptr<TrainingStep> step_;
  std::unique_ptr<DeviceLoop> loop_;
  int64_t started_ = 0;
};

}  // namespace

DeviceStepTimes device_step_times(const MakeModel& make, int64_t batch, int64_t length,
                                  const std::string& precision, Form form, int64_t replays) {
  const auto group = std::min<int64_t>(20, replays);
  const ExecutionScope scope(form);
  set_float32_products(precision_from(precision));
  torch::manual_seed(1);
  const auto groups = (replays + group - 1) / group;
  DeviceRun run(make, batch, length, precision, groups * group);
  reset_peak_device_memory();
  run.start_steps(2);
  {  // not recorded yet, all libraries loaded: the part for a profiler
    const ProfiledPart profiled(torch::kCUDA);
    run.start_steps(1);
  }
  run.start_steps(DeviceRun::kStepsBefore - 3);
  torch::cuda::synchronize();
  std::vector<double> seconds;
  for (int64_t i = 0; i < groups; ++i)
    seconds.push_back(seconds_of([&] {
                        run.start_steps(group);
                        torch::cuda::synchronize();
                      }) /
                      static_cast<double>(group));
  std::sort(seconds.begin(), seconds.end());
  return {.median = seconds[seconds.size() / 2],
          .fastest = seconds.front(),
          .kernels = run.kernels(),
          .peak_bytes = peak_device_memory(),
          .parameters = run.parameters()};
}

SideBySide device_steps_side_by_side(const MakeModel& make, int64_t batch, int64_t length,
                                     const std::string& precision, int runs, int64_t replays) {
  set_float32_products(precision_from(precision));
  const auto count = static_cast<size_t>(runs);
  std::barrier ready(runs);
  std::vector<double> starting(count, 0), all(count, 0);  // seconds
  std::vector<std::exception_ptr> failures(count);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < count; ++i)
    threads.emplace_back([&, i] {
      bool waited = false;
      try {
        DeviceRun run(make, batch, length, precision, replays);
        run.start_steps(DeviceRun::kStepsBefore);
        run.wait();
        waited = true;
        ready.arrive_and_wait();
        all[i] = seconds_of([&] {
          starting[i] = seconds_of([&] { run.start_steps(replays); });
          run.wait();
        });
      } catch (...) {
        failures[i] = std::current_exception();
        if (!waited) ready.arrive_and_drop();
      }
    });
  for (auto& thread : threads) thread.join();
  for (const auto& failure : failures)
    if (failure) std::rethrow_exception(failure);
  const auto steps = static_cast<double>(runs) * static_cast<double>(replays);
  return {.runs = runs,
          .steps_per_second = steps / *std::max_element(all.begin(), all.end()),
          .start_seconds = std::accumulate(starting.begin(), starting.end(), 0.0) / steps};
}

ConnectionTimes connection_times(const std::string& connection, const ResidualConfig& config,
                                 const ConnectionRun& run) {
  const torch::Device device(run.device);
  const OwnCudaStream cuda_stream(device);
  const ExecutionScope scope(run.form);
  const ExecutionScope products(precision_from(run.precision));
  if (on_gpu(device)) set_float32_products(precision_from(run.precision));
  const auto residual = make_residual(connection, config);
  residual->to(device);
  const auto& traits = residual->traits();
  auto shape = std::vector<int64_t>{run.batch, run.length, traits.state_width};
  if (traits.layout == StreamLayout::expand)
    shape = {run.batch, run.length, traits.streams, traits.state_width / traits.streams};
  const auto state = [&] {
    const auto values = torch::randn(shape).to(device);
    return residual->supports_bf16_state() ? in_state_type(values) : values;
  };
  const auto x = state().requires_grad_(true), cotangent = state();
  auto inputs = residual->parameters();
  inputs.push_back(x);
  RecordedWork work(device, [&] {
    Trace trace;
    const auto out = residual->forward(
        x, [](const Tensor& h) { return h; }, trace);
    torch::autograd::grad({out}, inputs, {cotangent}, c10::nullopt, /*create_graph=*/false,
                          /*allow_unused=*/true);
  });
  const auto wait = [&] {
    if (on_gpu(device)) torch::cuda::synchronize();
  };
  work.run();  // warms up, and after some times is recorded
  if (on_gpu(device)) {
    work.run();
    {  // not recorded yet: the part for a profiler
      const ProfiledPart profiled(device);
      work.run();
    }
    for (int i = 0; i < 3; ++i) work.run();
  }
  wait();
  const int64_t group = on_gpu(device) ? std::min<int64_t>(20, run.repeats) : 1;
  std::vector<double> seconds;
  for (int64_t done = 0; done < run.repeats; done += group)
    seconds.push_back(seconds_of([&] {
                        for (int64_t i = 0; i < group; ++i) work.run();
                        wait();
                      }) /
                      static_cast<double>(group));
  std::sort(seconds.begin(), seconds.end());
  return {
      .median = seconds[seconds.size() / 2], .fastest = seconds.front(), .kernels = work.kernels()};
}

double connection_seconds(const std::string& connection, const ResidualConfig& config,
                          int64_t batch, int64_t length, Form form, int repeats) {
  return connection_times(connection, config,
                          {.batch = batch, .length = length, .form = form, .repeats = repeats})
      .fastest;
}

double growth_exponent(const std::vector<std::pair<double, double>>& points) {
  double mean_x = 0, mean_y = 0, xy = 0, xx = 0;
  for (const auto& [size, seconds] : points) {
    mean_x += std::log(size) / static_cast<double>(points.size());
    mean_y += std::log(seconds) / static_cast<double>(points.size());
  }
  for (const auto& [size, seconds] : points) {
    xy += (std::log(size) - mean_x) * (std::log(seconds) - mean_y);
    xx += (std::log(size) - mean_x) * (std::log(size) - mean_x);
  }
  return xy / xx;
}

}  // namespace geores
