#include "geores/portable/layers.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace geores::portable {
namespace {

// Four sums side by side: they do not wait for each other, and vectorise.
double dot(const double* a, const double* b, int count) {
  double sums[4] = {};
  int i = 0;
  for (; i + 4 <= count; i += 4)
    for (int lane = 0; lane < 4; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  double sum = (sums[0] + sums[2]) + (sums[1] + sums[3]);
  for (; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace

Linear Linear::read(const Weights& weights, const std::string& name, int rows, int columns,
                    bool with_bias) {
  Linear map{rows, columns, weights.read(name + ".weight", {rows, columns}), {}};
  if (with_bias) map.bias = weights.read(name + ".bias", {rows});
  return map;
}

void Linear::apply(const double* x, double* y) const {
  for (int i = 0; i < rows; ++i)
    y[i] = dot(weight.data() + static_cast<std::size_t>(i) * columns, x, columns) +
           (bias.empty() ? 0 : bias[i]);
}

Linear Linear::after(const Linear& first) const {
  Linear product{
      rows, first.columns, std::vector<double>(static_cast<std::size_t>(rows) * first.columns), {}};
  for (int i = 0; i < rows; ++i)
    for (int k = 0; k < columns; ++k) {
      const double factor = weight[static_cast<std::size_t>(i) * columns + k];
      for (int j = 0; j < first.columns; ++j)
        product.weight[static_cast<std::size_t>(i) * first.columns + j] +=
            factor * first.weight[static_cast<std::size_t>(k) * first.columns + j];
    }
  return product;
}

LayerNorm LayerNorm::read(const Weights& weights, const std::string& name, int width,
                          bool with_bias) {
  LayerNorm norm{weights.read(name + ".weight", {width}), {}};
  if (with_bias) norm.bias = weights.read(name + ".bias", {width});
  return norm;
}

void LayerNorm::apply(const double* x, double* y) const {
  const auto width = weight.size();
  double mean = 0, variance = 0;
  for (std::size_t i = 0; i < width; ++i) mean += x[i];
  mean /= static_cast<double>(width);
  for (std::size_t i = 0; i < width; ++i) variance += (x[i] - mean) * (x[i] - mean);
  const double scale = 1 / std::sqrt(variance / static_cast<double>(width) + 1e-5);
  for (std::size_t i = 0; i < width; ++i)
    y[i] = (x[i] - mean) * scale * weight[i] + (bias.empty() ? 0 : bias[i]);
}

void rms_normalize(const double* x, int count, double epsilon, double* y) {
  const double scale = 1 / std::sqrt(dot(x, x, count) / count + epsilon);
  for (int i = 0; i < count; ++i) y[i] = scale * x[i];
}

void normalize(double* x, int count) {
  const double length = std::max(std::sqrt(dot(x, x, count)), 1e-12);
  for (int i = 0; i < count; ++i) x[i] /= length;
}

double gelu(double x) { return 0.5 * x * (1 + std::erf(x * 0.70710678118654752440)); }
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double softplus(double x) { return x > 20 ? x : std::log1p(std::exp(x)); }

Perceptron Perceptron::read(const Weights& weights, const std::string& name, int in, int out) {
  const auto& shape = weights.shape(name + ".hidden.weight");
  const int hidden = shape.empty() ? 0 : static_cast<int>(shape.front());
  return {Linear::read(weights, name + ".hidden", hidden, in, true),
          Linear::read(weights, name + ".output", out, hidden, true)};
}

void Perceptron::apply(const double* x, double* y, double* room) const {
  hidden.apply(x, room);
  for (int i = 0; i < hidden.rows; ++i) room[i] = gelu(room[i]);
  output.apply(room, y);
}

Attention::Attention(Linear qkv, Linear out, int heads, int context)
    : qkv_(std::move(qkv)),
      out_(std::move(out)),
      width_(qkv_.rows / 3),
      heads_(heads),
      keys_(static_cast<std::size_t>(context) * width_),
      values_(keys_.size()),
      row_(static_cast<std::size_t>(3) * width_),
      scores_(context),
      attended_(width_) {}

void Attention::apply(int position, const double* x, double* y) {
  qkv_.apply(x, row_.data());
  const auto begin = static_cast<std::size_t>(position) * width_;
  std::copy_n(row_.data() + width_, width_, keys_.data() + begin);
  std::copy_n(row_.data() + 2 * width_, width_, values_.data() + begin);
  const int size = width_ / heads_;
  const double scale = 1 / std::sqrt(static_cast<double>(size));
  std::fill(attended_.begin(), attended_.end(), 0.0);
  for (int head = 0; head < heads_; ++head) {
    const int offset = head * size;
    double largest = -INFINITY, sum = 0;
    for (int t = 0; t <= position; ++t) {
      scores_[t] = scale * dot(row_.data() + offset,
                               keys_.data() + static_cast<std::size_t>(t) * width_ + offset, size);
      largest = std::max(largest, scores_[t]);
    }
    for (int t = 0; t <= position; ++t) sum += scores_[t] = std::exp(scores_[t] - largest);
    for (int t = 0; t <= position; ++t) {
      const double* value = values_.data() + static_cast<std::size_t>(t) * width_ + offset;
      for (int i = 0; i < size; ++i) attended_[offset + i] += scores_[t] / sum * value[i];
    }
  }
  out_.apply(attended_.data(), y);
}

Mlp::Mlp(Linear up, Linear down) : up_(std::move(up)), down_(std::move(down)), hidden_(up_.rows) {}

void Mlp::apply(int, const double* x, double* y) {
  up_.apply(x, hidden_.data());
  for (double& value : hidden_) value = gelu(value);
  down_.apply(hidden_.data(), y);
}

}  // namespace geores::portable
