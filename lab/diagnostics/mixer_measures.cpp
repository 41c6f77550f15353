#include "lab/diagnostics/mixer_measures.h"

#include <algorithm>
#include <cmath>

#include "geores/base/error.h"

namespace geores {
namespace {

Tensor in_double(const Tensor& a) { return a.detach().to(torch::kCPU, torch::kFloat64); }

Tensor without_diagonal(const Tensor& a) {
  const auto n = a.size(-1);
  return a.masked_fill(torch::eye(n).to(torch::kBool), -std::numeric_limits<double>::infinity());
}

}  // namespace

std::vector<double> quantiles(const Tensor& values, const std::vector<double>& shares) {
  require(values.numel() > 0, "quantiles", "there are no values");
  // Sorted, because torch::quantile takes at most 2²⁴ values, and on the values' device: of a deep model these are
  // millions for each operator, which a CPU would sort for minutes.
  const auto sorted = std::get<0>(values.detach().flatten().sort());
  std::vector<double> parts;
  std::vector<int64_t> indices;  // of the values below and above each quantile
  for (const auto share : shares) {
    const auto index = share * static_cast<double>(sorted.numel() - 1);
    const auto below = static_cast<int64_t>(index);
    indices.insert(indices.end(), {below, std::min(below + 1, sorted.numel() - 1)});
    parts.push_back(index - static_cast<double>(below));
  }
  const auto found = in_double(sorted.index_select(0, torch::tensor(indices).to(sorted.device())));
  const auto* at = found.data_ptr<double>();
  std::vector<double> result;
  for (size_t i = 0; i < parts.size(); ++i, at += 2)
    result.push_back(parts[i] == 0 ? at[0] : at[0] + parts[i] * (at[1] - at[0]));
  return result;
}

std::vector<double> five_quantiles(const Tensor& values) {
  return quantiles(values, {0, 0.01, 0.5, 0.99, 1});
}

Tensor row_maxima(const Tensor& mixers) { return in_double(mixers).amax(-1); }

double diagonal_share(const Tensor& mixers) {
  const auto a = in_double(mixers);
  if (a.size(-1) == 1) return 1;
  const auto leads = a.diagonal(0, -2, -1) > without_diagonal(a).amax(-1);  // (..., n)
  return leads.all(-1).to(torch::kFloat64).mean().item<double>();
}

Tensor forward_gain(const Tensor& mixers) { return in_double(mixers).sum(-1).abs().amax(-1); }
Tensor backward_gain(const Tensor& mixers) { return in_double(mixers).sum(-2).abs().amax(-1); }

std::vector<int64_t> entry_histogram(const Tensor& mixers) {
  const auto width = (kMostEntry - kLeastEntry) / kEntryBins;
  const auto bins = ((in_double(mixers).flatten() - kLeastEntry) / width)
                        .floor()
                        .clamp(0, kEntryBins - 1)
                        .to(torch::kInt64);
  const auto counts = torch::bincount(bins, {}, kEntryBins).contiguous();
  return {counts.data_ptr<int64_t>(), counts.data_ptr<int64_t>() + kEntryBins};
}

double negative_share(const Tensor& mixers) {
  return (in_double(mixers) < 0).to(torch::kFloat64).mean().item<double>();
}

GradientNorms describe_gradient_norms(const std::vector<double>& norms, double clip,
                                      int64_t length) {
  require(length >= 1, "gradient_norms", "a window must have at least one step, got {}", length);
  GradientNorms result;
  const auto steps = static_cast<int64_t>(norms.size());
  for (int64_t first = 0; first < steps; first += length) {
    const auto end = std::min(first + length, steps);
    const auto found =
        quantiles(torch::tensor(std::vector<double>(norms.begin() + first, norms.begin() + end),
                                torch::kFloat64),
                  {0.5, 0.99, 1});
    result.windows.push_back({first, found[0], found[1], found[2]});
  }
  const auto above =
      std::count_if(norms.begin(), norms.end(), [clip](double norm) { return norm > clip; });
  if (steps > 0 && clip > 0)
    result.clipped = static_cast<double>(above) / static_cast<double>(steps);
  return result;
}

nlohmann::json GradientNorms::to_json() const {
  auto list = nlohmann::json::array();
  for (const auto& window : windows)
    list.push_back({{"first", window.first},
                    {"median", window.median},
                    {"high", window.high},
                    {"most", window.most}});
  return {{"windows", list}, {"clipped", clipped}};
}

BetaReport describe_beta(const Tensor& values) {
  const auto beta = values.detach().to(torch::kFloat64).flatten();
  return {.mean = beta.mean().item<double>(),
          .variance = beta.var(/*unbiased=*/false).item<double>(),
          .negative = (beta < 0).to(torch::kFloat64).mean().item<double>(),
          .quantiles = quantiles(beta, {0.01, 0.05, 0.5, 0.95, 0.99})};
}

nlohmann::json BetaReport::to_json() const {
  return {{"mean", mean}, {"variance", variance}, {"negative", negative}, {"quantiles", quantiles}};
}

BetaDepth describe_beta_depth(const std::vector<BetaReport>& operators) {
  BetaDepth result;
  const auto count = static_cast<int64_t>(operators.size());
  for (int64_t l = count - 1; l >= 0 && operators[static_cast<size_t>(l)].mean < 0; --l)
    result.first_below_zero = l;
  for (size_t l = 1; l < operators.size(); ++l)
    result.sharpness =
        std::max(result.sharpness, std::abs(operators[l].mean - operators[l - 1].mean));
  return result;
}

}  // namespace geores
