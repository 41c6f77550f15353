#include <cmath>

#include "geores/portable/kinds.h"
#include "geores/portable/summary.h"

namespace geores::portable {
namespace {

// x = Σ_j r_j X_j,  X_j ← X_j + β (v_j − kᵀX_j) k with k = F(LN(x))/‖·‖.
class Ddl final : public Connection {
 public:
  explicit Ddl(const ConnectionSource& source)
      : width_(source.width),
        streams_(source.streams),
        norm_(LayerNorm::read(source, source.name + ".norm", width_, false)),
        read_(source.read(source.name + ".read", streams_)),
        beta_map_(Linear::read(source, source.name + ".beta", 1, width_, true)),
        value_map_(Linear::read(source, source.name + ".value", streams_, width_, true)),
        seen_(source.arena.doubles(width_)),
        value_(source.arena.doubles(streams_)),
        betas_(source.arena.doubles(source.context)) {}

  void read(int position, double* state, double* input) override {
    for (int c = 0; c < width_; ++c) {
      seen_[c] = 0;
      for (int j = 0; j < streams_; ++j) seen_[c] += read_[j] * state[j * width_ + c];
    }
    double logit = 0;
    beta_map_.apply(seen_, &logit);
    betas_[position] = 2 * sigmoid(logit);
    value_map_.apply(seen_, value_);
    norm_.apply(seen_, input);
  }

  void write(int position, const double* output, double* state) override {
    double* k = seen_;
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
  const double* read_;
  Linear beta_map_, value_map_;
  double *seen_, *value_, *betas_;
};

// g = x − β k (kᵀx),  x' = g + F(LN(g)).
class DdlPooled final : public Added {
 public:
  explicit DdlPooled(const ConnectionSource& source)
      : Added(source),
        width_(source.width),
        summary_(Summary::pool_from(source.text("pool", "sequence")), width_, source.arena),
        k_map_(Perceptron::read(source, source.name + ".k", width_, width_)),
        beta_map_(Perceptron::read(source, source.name + ".beta", width_, 1)),
        k_(source.arena.doubles(width_)),
        betas_(source.arena.doubles(source.context)) {}

  void look(const double* states, int, int to) override { summary_.look(states, width_, to); }
  Probe probe(int position) const override { return {NAN, betas_[position], NAN}; }

 private:
  void carry(int position, double* state) override {
    const double* summary = summary_.at(position, state);
    double logit = 0, along = 0;
    k_map_.apply(summary, k_);
    beta_map_.apply(summary, &logit);
    normalize(k_, width_);
    betas_[position] = 2 * sigmoid(logit);
    for (int c = 0; c < width_; ++c) along += k_[c] * state[c];
    for (int c = 0; c < width_; ++c) state[c] -= betas_[position] * along * k_[c];
  }

  int width_;
  Summary summary_;
  Perceptron k_map_, beta_map_;
  double *k_, *betas_;
};

// V = F(LN(x)) ⊙ σ(LN(W_gate x)),  x' = x + β ⊙ (V − αx),  β = λ tanh(W_β x + b) + ε; without
// `delta` x' = x + V.
class Mgt final : public Connection {
 public:
  explicit Mgt(const ConnectionSource& source)
      : width_(source.width),
        rectify_(source.flag("rectify", true)),
        delta_(source.flag("delta", true)),
        scale_(source.number("beta_scale", 1)),
        offset_(source.number("beta_offset", 0)),
        norm_(LayerNorm::read(source, source.name + ".norm", width_, false)),
        gate_(source.arena.doubles(width_)),
        beta_(source.arena.doubles(width_)) {
    if (rectify_) {
      gate_map_ = Linear::read(source, source.name + ".gate", width_, width_, false);
      gate_norm_ = LayerNorm::read(source, source.name + ".gate_norm", width_, false);
    }
    if (!delta_) return;
    beta_map_ = Linear::read(source, source.name + ".beta", width_, width_, true);
    alpha_ = source.single(source.name + ".alpha");
  }

  void read(int, double* state, double* input) override { norm_.apply(state, input); }

  void write(int, const double* output, double* state) override {
    if (rectify_) {
      gate_map_.apply(state, gate_);
      gate_norm_.apply(gate_, gate_);
    }
    if (delta_) beta_map_.apply(state, beta_);
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
  double *gate_, *beta_;
};

}  // namespace

Connection* make_ddl(const ConnectionSource& source) { return source.arena.make<Ddl>(source); }
Connection* make_ddl_pooled(const ConnectionSource& source) {
  return source.arena.make<DdlPooled>(source);
}
Connection* make_mgt(const ConnectionSource& source) { return source.arena.make<Mgt>(source); }

}  // namespace geores::portable
