#include "geores/portable/edelta.h"

#include <algorithm>
#include <cmath>

#include "geores/base/refusal.h"

namespace geores::portable {

Edelta::Edelta(const Place& place)
    : width_(place.width),
      streams_(place.streams),
      rotates_(place.text("operator", "hybrid") != "householder"),
      reflects_(place.text("operator", "hybrid") != "cayley"),
      entropy_gate_(place.text("gate", "plain") == "entropy"),
      summary_(Summary::pool_from(place.text("pool", "sequence")), width_),
      entropy_summary_(summary_.pool(), 1),
      norm_(LayerNorm::read(place.weights, place.name + ".norm", width_, false)),
      mixed_(width_),
      probes_(place.context) {
  refuse_unless(streams_ >= 1 && streams_ <= kMost && width_ % streams_ == 0, "edelta",
                "{} streams do not divide width {}, or are more than {}", streams_, width_, kMost);
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
    const double length = std::sqrt(manifold::dot(p.k, p.k));
    for (int i = 0; i < streams_; ++i) p.k[i] /= std::max(length, 1e-12);
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
  const auto g = manifold::hybrid_operator(p);
  const int d = width_ / streams_;
  std::fill(mixed_.begin(), mixed_.end(), 0.0);
  for (int i = 0; i < streams_; ++i)
    for (int j = 0; j < streams_; ++j)
      for (int c = 0; c < d; ++c) mixed_[i * d + c] += g(i, j) * state[j * d + c];
  std::copy(mixed_.begin(), mixed_.end(), state);
  norm_.apply(state, input);
  const auto plane = manifold::rotation_plane(p.u, p.v, p.beta);
  probes_[position] = {rotates_ && reflects_ ? p.gamma : NAN, rotates_ ? p.beta : NAN,
                       rotates_ ? 2 * std::atan(plane.omega) : NAN};
}

void Edelta::write(int, const double* output, double* state) {
  for (int i = 0; i < width_; ++i) state[i] += output[i];
}

}  // namespace geores::portable
