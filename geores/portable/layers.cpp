#include "geores/portable/layers.h"

#include <algorithm>
#include <cmath>

namespace geores::portable {

Linear Linear::read(const Source& source, const Name& name, int rows, int columns, bool with_bias) {
  return {rows, columns, source.read(name + ".weight", rows, columns),
          with_bias ? source.read(name + ".bias", rows) : nullptr};
}

void Linear::apply(const double* x, double* y) const {
  for (int i = 0; i < rows; ++i)
    y[i] = dot(weight + static_cast<std::size_t>(i) * columns, x, columns) + (bias ? bias[i] : 0);
}

Linear Linear::after(const Linear& first, Arena& arena) const {
  Linear product{rows, first.columns,
                 arena.doubles(static_cast<std::size_t>(rows) * first.columns)};
  for (int i = 0; i < rows; ++i)
    for (int k = 0; k < columns; ++k) {
      const double factor = weight[static_cast<std::size_t>(i) * columns + k];
      add_scaled(factor, first.weight + static_cast<std::size_t>(k) * first.columns, first.columns,
                 product.weight + static_cast<std::size_t>(i) * first.columns);
    }
  return product;
}

LayerNorm LayerNorm::read(const Source& source, const Name& name, int width, bool with_bias) {
  return {width, source.read(name + ".weight", width),
          with_bias ? source.read(name + ".bias", width) : nullptr};
}

void LayerNorm::apply(const double* x, double* y) const {
  double mean = 0, variance = 0;
  for (int i = 0; i < width; ++i) mean += x[i];
  mean /= width;
  for (int i = 0; i < width; ++i) variance += (x[i] - mean) * (x[i] - mean);
  const double scale = 1 / std::sqrt(variance / width + 1e-5);
  for (int i = 0; i < width; ++i) y[i] = (x[i] - mean) * scale * weight[i] + (bias ? bias[i] : 0);
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

Perceptron Perceptron::read(const Source& source, const Name& name, int in, int out) {
  const auto& shape = source.weights.shape(name + ".hidden.weight");
  const int hidden = shape.axes > 0 ? static_cast<int>(shape[0]) : 0;
  return {Linear::read(source, name + ".hidden", hidden, in, true),
          Linear::read(source, name + ".output", out, hidden, true), source.arena.doubles(hidden)};
}

void Perceptron::apply(const double* x, double* y) const {
  hidden.apply(x, between);
  for (int i = 0; i < hidden.rows; ++i) between[i] = gelu(between[i]);
  output.apply(between, y);
}

Attention::Attention(const Linear& qkv, const Linear& out, int heads, int context, Arena& arena)
    : qkv_(qkv),
      out_(out),
      width_(qkv_.rows / 3),
      heads_(heads),
      keys_(arena.doubles(static_cast<std::size_t>(context) * width_)),
      values_(arena.doubles(static_cast<std::size_t>(context) * width_)),
      row_(arena.doubles(static_cast<std::size_t>(3) * width_)),
      scores_(arena.doubles(context)),
      attended_(arena.doubles(width_)) {}

void Attention::apply(int position, const double* x, double* y) {
  qkv_.apply(x, row_);
  const auto begin = static_cast<std::size_t>(position) * width_;
  std::copy_n(row_ + width_, width_, keys_ + begin);
  std::copy_n(row_ + 2 * width_, width_, values_ + begin);
  const int size = width_ / heads_;
  const double scale = 1 / std::sqrt(static_cast<double>(size));
  std::fill_n(attended_, width_, 0.0);
  for (int head = 0; head < heads_; ++head) {
    const int offset = head * size;
    double largest = -INFINITY, sum = 0;
    for (int t = 0; t <= position; ++t) {
      scores_[t] =
          scale * dot(row_ + offset, keys_ + static_cast<std::size_t>(t) * width_ + offset, size);
      largest = std::max(largest, scores_[t]);
    }
    for (int t = 0; t <= position; ++t) sum += scores_[t] = std::exp(scores_[t] - largest);
    for (int t = 0; t <= position; ++t) {
      const double* value = values_ + static_cast<std::size_t>(t) * width_ + offset;
      add_scaled(scores_[t] / sum, value, size, attended_ + offset);
    }
  }
  out_.apply(attended_, y);
}

Mlp::Mlp(const Linear& up, const Linear& down, Arena& arena)
    : up_(up), down_(down), hidden_(arena.doubles(up.rows)) {}

void Mlp::apply(int, const double* x, double* y) {
  up_.apply(x, hidden_);
  for (int i = 0; i < up_.rows; ++i) hidden_[i] = gelu(hidden_[i]);
  down_.apply(hidden_, y);
}

}  // namespace geores::portable
