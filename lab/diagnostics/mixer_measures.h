// Measures of the n × n mixers of hyper-connections, as sHC (arXiv:2603.20896) and mHC
// (arXiv:2512.24880, Figs. 3 and 7) show them: pure functions of matrices (..., n, n), in double
// precision on the CPU. Leading axes are a batch.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "geores/ops/torch.h"

namespace geores {

using torch::Tensor;

// The quantiles of `values` for these shares, linear between two values.
std::vector<double> quantiles(const Tensor& values, const std::vector<double>& shares);

// Minimum, 1, 50 and 99 %, maximum.
std::vector<double> five_quantiles(const Tensor& values);

// The largest entry of each row: (..., n, n) -> (..., n).
Tensor row_maxima(const Tensor& mixers);

// The share of matrices in which every row is largest on the diagonal, and nowhere else as large.
double diagonal_share(const Tensor& mixers);

// "Amax gain": the largest |row sum| of each matrix (the gain of a forward pass) and the largest
// |column sum| (of a backward pass): (..., n, n) -> (...).
Tensor forward_gain(const Tensor& mixers);
Tensor backward_gain(const Tensor& mixers);

// The number of entries in each of 101 equal bins from −1 to 1.5; those outside count in the first
// or the last.
inline constexpr int kEntryBins = 101;
inline constexpr double kLeastEntry = -1, kMostEntry = 1.5;
std::vector<int64_t> entry_histogram(const Tensor& mixers);

double negative_share(const Tensor& mixers);

// The gradient norms of a run, one for each step: 50 %, 99 % and maximum of each window of `length`
// steps (the last may be shorter), and the share of steps whose norm is above `clip`.
struct GradientNorms {
  struct Window {
    int64_t first = 0;  // step
    double median = 0, high = 0, most = 0;
  };
  std::vector<Window> windows;
  double clipped = 0;

  nlohmann::json to_json() const;
};
GradientNorms describe_gradient_norms(const std::vector<double>& norms, double clip,
                                      int64_t length = 100);

// β of MGT's delta rule, all values of one operator.
struct BetaReport {
  double mean = 0, variance = 0, negative = 0;  // negative: share of values below 0
  std::vector<double> quantiles = {};           // 1, 5, 50, 95, 99 %

  nlohmann::json to_json() const;
};
BetaReport describe_beta(const Tensor& values);

// Over the depth: the first operator from which on the mean of β stays below 0 (−1: none), and the
// largest change of the mean between neighbours.
struct BetaDepth {
  int64_t first_below_zero = -1;
  double sharpness = 0;
};
BetaDepth describe_beta_depth(const std::vector<BetaReport>& operators);

}  // namespace geores
