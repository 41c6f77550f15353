#include "geores/portable/edelta.h"

#include <algorithm>
#include <cmath>

namespace geores::portable {

namespace {

// Does the operator have this part of the blend? Without geometry ("identity") it has neither.
bool has_part(const Place& place, const char* part) {
  const auto name = place.text("operator", "hybrid");
  return name == "hybrid" || name == part;
}

}  // namespace

Edelta::Edelta(const Place& place)
    : width_(place.width),
      streams_(place.streams),
      rotates_(has_part(place, "cayley")),
      reflects_(has_part(place, "householder")),
      entropy_gate_(place.text("gate", "plain") == "entropy"),
      summary_(Summary::pool_from(place.text("pool", "sequence")), width_),
      entropy_summary_(summary_.pool(), 1),
      norm_(LayerNorm::read(place.weights, place.name + ".norm", width_, false)),
      mixed_(width_),
      probes_(place.context) {
  const auto net = [&](const char* name, int out) {
    auto perceptron = Perceptron::read(place.weights, place.name + "." + name, width_, out);
    room_.resize(std::max<std::size_t>(room_.size(), perceptron.hidden.rows));
    return perceptron;
  };
  if (rotates_) {
    u_ = net("u", streams_);
    v_ = net("v", streams_);
    beta_ = net("beta", 1);
  }
  if (reflects_) k_ = net("k", streams_);
  if (rotates_ && reflects_)
    gate_ = Linear::read(place.weights, place.name + ".gate", 1, width_, true);
  // Weights made for the page have both maps folded into the sublayers already.
  if (place.weights.metadata("folded") == "true") return;
  before_ = Linear::read(place.weights, place.name + ".pre", width_, width_, false);
  after_ = Linear::read(place.weights, place.name + ".post", width_, width_, false);
}

double Edelta::entropy(const double* state) const {
  const int d = width_ / streams_;
  double trace = 0, squares = 0;
  for (int i = 0; i < streams_; ++i)
    for (int j = 0; j < streams_; ++j) {
      double entry = 0;
      for (int c = 0; c < d; ++c) entry += state[i * d + c] * state[j * d + c];
      squares += entry * entry;
      if (i == j) trace += entry;
    }
  return 1 - squares / (trace * trace + 1e-8);
}

void Edelta::look(const double* states, int from, int to) {
  summary_.look(states, width_, to);
  if (!entropy_gate_ || summary_.pool() != Summary::Pool::sequence) return;
  entropies_.resize(to);
  for (int t = from; t < to; ++t)
    entropies_[t] = entropy(states + static_cast<std::size_t>(t) * width_);
  entropy_summary_.look(entropies_.data(), 1, to);
}

Edelta::Generators Edelta::generators(int position, const double* state) {
  const double* summary = summary_.at(position, state);
  Generators p{};
  double beta = 0;
  if (rotates_) {
    u_.apply(summary, p.u.at, room_.data());
    v_.apply(summary, p.v.at, room_.data());
    beta_.apply(summary, &beta, room_.data());
    p.beta = softplus(beta);
  }
  if (reflects_) {
    k_.apply(summary, p.k.at, room_.data());
    normalize(p.k.at, streams_);
  }
  p.gamma = rotates_ ? 1 : 0;
  if (rotates_ && reflects_) {
    double logit = 0;
    gate_.apply(summary, &logit);
    if (entropy_gate_) {
      const double own = entropy(state);
      logit *= 1 + *entropy_summary_.at(position, &own);
    }
    p.gamma = sigmoid(logit);
  }
  return p;
}

void Edelta::read(int position, double* state, double* input) {
  const auto p = generators(position, state);
  mix_streams(manifold::hybrid_operator(p), streams_, width_ / streams_, state, mixed_.data());
  norm_.apply(state, input);
  probes_[position] = {rotates_ && reflects_ ? p.gamma : NAN, rotates_ ? p.beta : NAN,
                       rotates_ ? rotation_angle(p) : NAN};
}

void Edelta::write(int, const double* output, double* state) {
  for (int i = 0; i < width_; ++i) state[i] += output[i];
}

}  // namespace geores::portable
