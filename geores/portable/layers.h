// The layers of every model here, on plain arrays of one position: linear maps, LayerNorm, GELU,
// small perceptrons, causal attention with kept keys and values. Weights are read once, into the
// model's Arena; no call allocates.
#pragma once

#include "geores/portable/weights.h"

namespace geores::portable {

// The two loops in which a model spends its time (sums.cpp): the browser's module is compiled for size
// but for these.
double dot(const double* a, const double* b, int count);
void add_scaled(double factor, const double* x, int count, double* y);  // y ← y + factor · x

// y = W x (+ b); W (rows, columns) row by row.
struct Linear {
  int rows = 0, columns = 0;
  double *weight = nullptr, *bias = nullptr;  // bias may be null

  static Linear read(const Source& source, const Name& name, int rows, int columns, bool with_bias);
  void apply(const double* x, double* y) const;
  Linear after(const Linear& first, Arena& arena) const;  // this · first, both without bias
};

// (x − mean)/√(var + 1e-5) · weight (+ bias)
struct LayerNorm {
  int width = 0;
  const double *weight = nullptr, *bias = nullptr;  // bias may be null

  static LayerNorm read(const Source& source, const Name& name, int width, bool with_bias);
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

  double* between = nullptr;  // hidden.rows values

  static Perceptron read(const Source& source, const Name& name, int in, int out);
  void apply(const double* x, double* y) const;
};

// A sublayer of a block: attention over the positions so far, or the MLP.
class Sublayer {
 public:
  virtual void apply(int position, const double* x, double* y) = 0;

 protected:
  ~Sublayer() = default;
};

// softmax(q kᵀ/√(w/h)) v per head over positions 0 … t.
class Attention final : public Sublayer {
 public:
  Attention(const Linear& qkv, const Linear& out, int heads, int context, Arena& arena);
  void apply(int position, const double* x, double* y) override;

 private:
  Linear qkv_, out_;
  int width_, heads_;
  double *keys_, *values_;  // (context, width)
  double *row_, *scores_, *attended_;
};

class Mlp final : public Sublayer {
 public:
  Mlp(const Linear& up, const Linear& down, Arena& arena);
  void apply(int position, const double* x, double* y) override;

 private:
  Linear up_, down_;
  double* hidden_;
};

}  // namespace geores::portable
