// What every model here is made of, on plain arrays of one position: linear maps, LayerNorm, GELU,
// small perceptrons, causal attention with kept keys and values. Weights are read once; no call
// allocates.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "geores/portable/weights.h"

namespace geores::portable {

// y = W x (+ b); W (rows, columns) row by row.
struct Linear {
  int rows = 0, columns = 0;
  std::vector<double> weight, bias;  // bias may be empty

  static Linear read(const Weights& weights, const std::string& name, int rows, int columns,
                     bool with_bias);
  void apply(const double* x, double* y) const;
  Linear after(const Linear& first) const;  // this · first, both without bias
};

// (x − mean)/√(var + 1e-5) · weight (+ bias)
struct LayerNorm {
  std::vector<double> weight, bias;  // bias may be empty

  static LayerNorm read(const Weights& weights, const std::string& name, int width, bool with_bias);
  void apply(const double* x, double* y) const;
};

void rms_normalize(const double* x, int count, double epsilon, double* y);  // x/√(mean x² + ε)
void normalize(double* x, int count);  // to length 1; zero stays zero

double gelu(double x);  // with the error function
double sigmoid(double x);
double softplus(double x);

// Linear → GELU → Linear, with biases.
struct Perceptron {
  Linear hidden, output;

  static Perceptron read(const Weights& weights, const std::string& name, int in, int out);
  // `room` holds at least hidden.rows values.
  void apply(const double* x, double* y, double* room) const;
};

// A sublayer of a block: attention over the positions so far, or the MLP.
class Sublayer {
 public:
  virtual ~Sublayer() = default;
  virtual void apply(int position, const double* x, double* y) = 0;
};

// softmax(q kᵀ/√(w/h)) v per head over positions 0 … t.
class Attention final : public Sublayer {
 public:
  Attention(Linear qkv, Linear out, int heads, int context);
  void apply(int position, const double* x, double* y) override;

 private:
  Linear qkv_, out_;
  int width_, heads_;
  std::vector<double> keys_, values_;  // (context, width)
  std::vector<double> row_, scores_, attended_;
};

class Mlp final : public Sublayer {
 public:
  Mlp(Linear up, Linear down);
  void apply(int position, const double* x, double* y) override;

 private:
  Linear up_, down_;
  std::vector<double> hidden_;
};

}  // namespace geores::portable
