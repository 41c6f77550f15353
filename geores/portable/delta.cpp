#include "geores/portable/delta.h"

#include <cmath>

#include "geores/portable/summary.h"

namespace geores::portable {
namespace {

// x = Σ_j r_j X_j,  X_j ← X_j + β (v_j − kᵀX_j) k with k = F(LN(x))/‖·‖.
class Ddl final : public Connection {
 public:
  explicit Ddl(const Place& place)
      : width_(place.width),
        streams_(place.streams),
        norm_(LayerNorm::read(place.weights, place.name + ".norm", width_, false)),
        read_(place.weights.read(place.name + ".read", {streams_})),
        beta_map_(Linear::read(place.weights, place.name + ".beta", 1, width_, true)),
        value_map_(Linear::read(place.weights, place.name + ".value", streams_, width_, true)),
        seen_(width_),
        value_(streams_),
        betas_(place.context) {}

  void read(int position, double* state, double* input) override {
    for (int c = 0; c < width_; ++c) {
      seen_[c] = 0;
      for (int j = 0; j < streams_; ++j) seen_[c] += read_[j] * state[j * width_ + c];
    }
    double logit = 0;
    beta_map_.apply(seen_.data(), &logit);
    betas_[position] = 2 * sigmoid(logit);
    value_map_.apply(seen_.data(), value_.data());
    norm_.apply(seen_.data(), input);
  }

  void write(int position, const double* output, double* state) override {
    double* k = seen_.data();
    for (int c = 0; c < width_; ++c) k[c] = output[c];
    normalize(k, width_);
    for (int j = 0; j < streams_; ++j) {
      double* stream = state + j * width_;
      double along = 0;
      for (int c = 0; c < width_; ++c) along += k[c] * stream[c];
      for (int c = 0; c < width_; ++c) stream[c] += betas_[position] * (value_[j] - along) * k[c];
    }
  }

  Probe probe(int position) const override { return {NAN, betas_[position], NAN}; }

 private:
  int width_, streams_;
  LayerNorm norm_;
  std::vector<double> read_;
  Linear beta_map_, value_map_;
  std::vector<double> seen_, value_, betas_;
};

// g = x − β k (kᵀx),  x' = g + F(LN(g)).
class DdlPooled final : public Connection {
 public:
  explicit DdlPooled(const Place& place)
      : width_(place.width),
        summary_(Summary::pool_from(place.text("pool", "sequence")), width_),
        norm_(LayerNorm::read(place.weights, place.name + ".norm", width_, false)),
        k_map_(Perceptron::read(place.weights, place.name + ".k", width_, width_)),
        beta_map_(Perceptron::read(place.weights, place.name + ".beta", width_, 1)),
        k_(width_),
        room_(std::max(k_map_.hidden.rows, beta_map_.hidden.rows)),
        betas_(place.context) {}

  void look(const double* states, int, int to) override { summary_.look(states, width_, to); }

  void read(int position, double* state, double* input) override {
    const double* summary = summary_.at(position, state);
    double logit = 0, along = 0;
    k_map_.apply(summary, k_.data(), room_.data());
    beta_map_.apply(summary, &logit, room_.data());
    normalize(k_.data(), width_);
    betas_[position] = 2 * sigmoid(logit);
    for (int c = 0; c < width_; ++c) along += k_[c] * state[c];
    for (int c = 0; c < width_; ++c) state[c] -= betas_[position] * along * k_[c];
    norm_.apply(state, input);
  }

  void write(int, const double* output, double* state) override {
    for (int c = 0; c < width_; ++c) state[c] += output[c];
  }

  Probe probe(int position) const override { return {NAN, betas_[position], NAN}; }

 private:
  int width_;
  Summary summary_;
  LayerNorm norm_;
  Perceptron k_map_, beta_map_;
  std::vector<double> k_, room_, betas_;
};

// V = F(LN(x)) ⊙ σ(LN(W_gate x)),  x' = x + β ⊙ (V − αx),  β = λ tanh(W_β x + b) + ε; without
// `delta` x' = x + V.
class Mgt final : public Connection {
 public:
  explicit Mgt(const Place& place)
      : width_(place.width),
        rectify_(place.flag("rectify", true)),
        delta_(place.flag("delta", true)),
        scale_(place.number("beta_scale", 1)),
        offset_(place.number("beta_offset", 0)),
        norm_(LayerNorm::read(place.weights, place.name + ".norm", width_, false)),
        gate_(width_),
        beta_(width_) {
    if (rectify_) {
      gate_map_ = Linear::read(place.weights, place.name + ".gate", width_, width_, false);
      gate_norm_ = LayerNorm::read(place.weights, place.name + ".gate_norm", width_, false);
    }
    if (!delta_) return;
    beta_map_ = Linear::read(place.weights, place.name + ".beta", width_, width_, true);
    alpha_ = place.weights.read(place.name + ".alpha", {1})[0];
  }

  void read(int, double* state, double* input) override { norm_.apply(state, input); }

  void write(int, const double* output, double* state) override {
    if (rectify_) {
      gate_map_.apply(state, gate_.data());
      gate_norm_.apply(gate_.data(), gate_.data());
    }
    if (delta_) beta_map_.apply(state, beta_.data());
    for (int c = 0; c < width_; ++c) {
      const double v = rectify_ ? output[c] * sigmoid(gate_[c]) : output[c];
      state[c] += delta_ ? (scale_ * std::tanh(beta_[c]) + offset_) * (v - alpha_ * state[c]) : v;
    }
  }

 private:
  int width_;
  bool rectify_, delta_;
  double scale_, offset_, alpha_ = 0;
  LayerNorm norm_, gate_norm_;
  Linear gate_map_, beta_map_;
  std::vector<double> gate_, beta_;
};

}  // namespace

std::unique_ptr<Connection> make_ddl(const Place& place) { return std::make_unique<Ddl>(place); }
std::unique_ptr<Connection> make_ddl_pooled(const Place& place) {
  return std::make_unique<DdlPooled>(place);
}
std::unique_ptr<Connection> make_mgt(const Place& place) { return std::make_unique<Mgt>(place); }

}  // namespace geores::portable
