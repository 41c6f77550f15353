// The cost of a training step, fused and as stock LibTorch operations, in one process: time, memory,
// and the time of nothing but its matrix products.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "geores/ops/run/kernel_choice.h"
#include "geores/residual/registry.h"
#include "geores/train/training_step.h"

namespace geores {

struct StepMemory {
  int64_t allocated = 0;  // bytes asked for during the step
  int64_t peak = 0;       // most bytes in use at once, above the memory in use before the step
};

// Seconds of the products alone, as LibTorch calls them in a stock step: same shapes, same BLAS.
struct ProductTimes {
  double projections = 0;  // products with weights, and their gradients
  double attention = 0;    // q kᵀ and weights · v over the whole square, and their gradients
  int64_t count = 0;
};

class StepBenchmark {
 public:
  // Random vectors (or tokens) in and out.
  StepBenchmark(std::shared_ptr<Model> model, int64_t batch, int64_t length);

  // Of one step.
  double seconds(Form form, const std::string& precision = "fp32");
  StepMemory memory(Form form);
  ProductTimes products(int repeats);
  int64_t parameters() const { return parameter_count(*model_); }

 private:
  std::shared_ptr<Model> model_;
  TrainingStep step_;
  Tensor x_, y_;
};

// Makes the model to be timed, the same every time, on the CPU.
using MakeModel = std::function<std::shared_ptr<Model>()>;

// A training step on a GPU as DeviceLoop runs it: recorded, then replayed.
struct DeviceStepTimes {
  double median = 0, fastest = 0;  // seconds a step, over groups of replays
  int64_t kernels = 0;             // of one step
  int64_t peak_bytes = 0;          // in use at once: parameters, optimiser, data and the step
  int64_t parameters = 0;
};
DeviceStepTimes device_step_times(const MakeModel& make, int64_t batch, int64_t length,
                                  const std::string& precision, Form form, int64_t replays);

// Several runs of the same model in one process, each with a thread and a CUDA stream of its own.
struct SideBySide {
  int runs = 1;
  double steps_per_second = 0;  // of all together
  double start_seconds = 0;     // for a thread to start a step, waiting until one more may be
};
SideBySide device_steps_side_by_side(const MakeModel& make, int64_t batch, int64_t length,
                                     const std::string& precision, int runs, int64_t replays);

// Which form every operation of a training step takes, and why, on this device ("cpu" or "cuda").
Explanation explain_step(const MakeModel& make, int64_t batch, int64_t length,
                         const std::string& precision, const std::string& device);

// A connection alone around a sublayer that costs nothing, forward and backward: how its own work
// grows.
double connection_seconds(const std::string& connection, const ResidualConfig& config,
                          int64_t batch, int64_t length, Form form, int repeats);

// The same on either device, on a GPU as a recorded graph.
struct ConnectionRun {
  int64_t batch = 16, length = 1024;
  std::string device = "cpu", precision = "fp32";
  Form form = Form::fused;
  int64_t repeats = 3;
};
struct ConnectionTimes {
  double median = 0, fastest = 0;  // seconds
  int64_t kernels = 0;             // on a GPU
};
ConnectionTimes connection_times(const std::string& connection, const ResidualConfig& config,
                                 const ConnectionRun& run);

// The exponent p of the best fit seconds ~ size^p.
double growth_exponent(const std::vector<std::pair<double, double>>& size_and_seconds);

}  // namespace geores
