#include <cmath>

#include "geores/portable/kinds.h"
#include "geores/portable/streams.h"
#include "geores/portable/summary.h"

namespace geores::portable {
namespace {

// Does the operator have this part of the blend? Without geometry ("identity") it has neither.
bool has_part(const ConnectionSource& source, std::string_view part) {
  const auto name = source.text("operator", "hybrid");
  return name == "hybrid" || name == part;
}

class Edelta final : public Added {
 public:
  explicit Edelta(const ConnectionSource& source);
  void look(const double* states, int from, int to) override;
  Probe probe(int position) const override { return probes_[position]; }
  const Linear* before() const override { return before_.rows > 0 ? &before_ : nullptr; }
  const Linear* after() const override { return after_.rows > 0 ? &after_ : nullptr; }

 private:
  using Generators = manifold::HybridGenerators<double, kMostStreams>;

  void carry(int position, double* state) override;
  double entropy(const double* state) const;
  Generators generators(int position, const double* state);

  int width_, streams_;
  bool rotates_, reflects_, entropy_gate_;
  Summary summary_, entropy_summary_;
  Perceptron u_, v_, beta_, k_;
  Linear gate_, before_, after_;
  double *mixed_, *entropies_;
  Probe* probes_;
};

Edelta::Edelta(const ConnectionSource& source)
    : Added(source),
      width_(source.width),
      streams_(source.streams),
      rotates_(has_part(source, "cayley")),
      reflects_(has_part(source, "householder")),
      entropy_gate_(source.text("gate", "plain") == "entropy"),
      summary_(Summary::pool_from(source.text("pool", "sequence")), width_, source.arena),
      entropy_summary_(summary_.pool(), 1, source.arena),
      mixed_(source.arena.doubles(width_)),
      entropies_(source.arena.doubles(source.context)),
      probes_(static_cast<Probe*>(source.arena.bytes(source.context, sizeof(Probe)))) {
  const auto net = [&](const char* name, int out) {
    return Perceptron::read(source, source.name + name, width_, out);
  };
  if (rotates_) {
    u_ = net(".u", streams_);
    v_ = net(".v", streams_);
    beta_ = net(".beta", 1);
  }
  if (reflects_) k_ = net(".k", streams_);
  if (rotates_ && reflects_) gate_ = Linear::read(source, source.name + ".gate", 1, width_, true);
  // Weights made for the page have both maps folded into the sublayers already.
  if (source.weights.metadata("folded") == "true") return;
  before_ = Linear::read(source, source.name + ".pre", width_, width_, false);
  after_ = Linear::read(source, source.name + ".post", width_, width_, false);
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
  for (int t = from; t < to; ++t)
    entropies_[t] = entropy(states + static_cast<std::size_t>(t) * width_);
  entropy_summary_.look(entropies_, 1, to);
}

Edelta::Generators Edelta::generators(int position, const double* state) {
  const double* summary = summary_.at(position, state);
  Generators p{};
  double beta = 0;
  if (rotates_) {
    u_.apply(summary, p.u.at);
    v_.apply(summary, p.v.at);
    beta_.apply(summary, &beta);
    p.beta = softplus(beta);
  }
  if (reflects_) {
    k_.apply(summary, p.k.at);
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

void Edelta::carry(int position, double* state) {
  const auto p = generators(position, state);
  mix_streams(manifold::hybrid_operator(p), streams_, width_ / streams_, state, mixed_);
  probes_[position] = {rotates_ && reflects_ ? p.gamma : NAN, rotates_ ? p.beta : NAN,
                       rotates_ ? rotation_angle(p) : NAN};
}

}  // namespace

Connection* make_edelta(const ConnectionSource& source) {
  return source.arena.make<Edelta>(source);
}

}  // namespace geores::portable
