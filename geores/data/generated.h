// Tasks whose sequences are drawn as the EΔ paper's code draws them (arXiv:2605.06729, Section 5):
// the same seed gives the same data. States are computed in float64 and stored as float32. A model
// sees the states 0 .. length − 2 and predicts the states 1 .. length − 1.
//
// The train sequences are drawn first and then the validation sequences, both of the sizes asked
// for. Where a task has one sequence of draws for both, fewer train sequences give other validation
// sequences than the paper's.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "geores/base/config.h"
#include "geores/base/formats/numpy_random.h"
#include "geores/data/dataset.h"

namespace geores {

// The options that every generated task has; each gives its own defaults.
struct GeneratedOptions {
  int64_t train_sequences = 0;
  int64_t validation_sequences = 0;
  int64_t length = 0;  // states per trajectory; one less to learn from
  int64_t data_seed = 42;

  Fields fields();
};

struct Trajectories {
  int64_t count = 0, length = 0, width = 0;
  std::vector<float> values = {};  // (count, length, width)
  std::vector<float> theta = {};   // the angle of each trajectory where the task has one

  Trajectories(int64_t count, int64_t length, int64_t width);
  void append(const std::vector<double>& state);
};

std::vector<double> gaussian(NumpyRandom& random, int64_t width);
std::vector<double> unit_vector(NumpyRandom& random, int64_t width);

// (a, b) <- (cos θ a − sin θ b, sin θ a + cos θ b)
void rotate(double& a, double& b, double cosine, double sine);

// How the data of one task with one set of options is made.
struct Recipe {
  std::string task;
  nlohmann::json options;  // complete: names the file in the cache
  GeneratedOptions sizes;
  int64_t width = 1;       // of a state; 1 for tokens
  int64_t vocabulary = 0;  // > 0: states are token ids
  bool has_theta = false;
  std::function<Trajectories(NumpyRandom& random, int64_t count)> draw;
  // None: the validation sequences continue the draws of the train sequences.
  std::optional<int64_t> validation_seed = {};
  // Marks the targets (N, T) that are not to be predicted with −1; none: all are.
  std::function<void(Tensor& targets)> mask = {};
};

// Refuses more than 2^31 numbers.
Dataset load_generated(const Recipe& recipe, const std::string& cache);

}  // namespace geores
