#include "geores/manifold/isometry.h"

#include <cmath>

#include "geores/portable/kinds.h"
#include "geores/portable/streams.h"
#include "geores/portable/summary.h"

namespace geores::portable {
namespace {

using manifold::IsometryFactor;

IsometryFactor factor_from(std::string_view name) {
  if (name == "reflections") return IsometryFactor::reflections;
  if (name == "unitary") return IsometryFactor::unitary;
  refuse_unless(name == "cayley", "config", "isometry has no operator {}", {quoted(name)});
  return IsometryFactor::cayley;
}

// Our own connection: a product of factors that are orthogonal whatever their generators are.
class Isometry final : public Added {
 public:
  explicit Isometry(const ConnectionSource& source)
      : Added(source),
        width_(source.width),
        streams_(source.streams),
        factors_(source.count("factors", 1)),
        factor_(factor_from(source.text("operator", "unitary"))),
        summary_(Summary::pool_from(source.text("pool", "causal")), width_, source.arena),
        count_(factors_ * manifold::generators_of(factor_, streams_)),
        raw_(source.arena.doubles(count_)),
        curved_(source.arena.doubles(count_)),
        straight_(source.arena.doubles(count_)),
        mixed_(source.arena.doubles(width_)),
        angles_(source.arena.doubles(source.context)) {
    refuse_unless(streams_ % 2 == 0 || factor_ != IsometryFactor::unitary, "model",
                  "unitary: {} streams are not even", {streams_});
    // The weights tell which generators there are: a perceptron, a linear map, or both.
    const auto name = source.name + ".generators";
    const bool straight = source.weights.contains(name + ".linear.weight"),
               curved = !straight || source.weights.contains(name + ".hidden.weight");
    if (curved) perceptron_ = Perceptron::read(source, name, width_, count_);
    if (straight) linear_ = Linear::read(source, name + ".linear", count_, width_, !curved);
  }

  void look(const double* states, int, int to) override { summary_.look(states, width_, to); }
  Probe probe(int position) const override { return {NAN, NAN, angles_[position]}; }

 private:
  void carry(int position, double* state) override {
    generate(summary_.at(position, state));
    const double* raw = raw_;
    auto g = manifold::identity<double, kMostStreams>();
    for (int i = 0; i < factors_; ++i, raw += manifold::generators_of(factor_, streams_))
      g = g * factor(raw);
    mix_streams(g, streams_, width_ / streams_, state, mixed_);
    angles_[position] = factors_ == 1 && factor_ != IsometryFactor::cayley ? angle_of(g) : NAN;
  }

  // raw_ from the summary: by a perceptron, a linear map, or their sum. A missing one has no rows
  // and leaves its zeros.
  void generate(const double* summary) {
    perceptron_.apply(summary, curved_);
    linear_.apply(summary, straight_);
    for (int i = 0; i < count_; ++i) raw_[i] = curved_[i] + straight_[i];
  }

  // A factor on 8 streams whose other generators are zero: it is the identity there.
  Square factor(const double* raw) const {
    const int n = streams_;
    if (factor_ == IsometryFactor::cayley) {
      Square skew{};
      for (int i = 0; i < n; ++i)
        for (int j = i + 1; j < n; ++j) {
          skew(i, j) = *raw++ / 2;
          skew(j, i) = -skew(i, j);
        }
      return manifold::cayley_transform(skew);
    }
    // Real parts come first, then imaginary ones: of 8 streams these begin later than of n.
    const auto padded = [&](int i) { return i < n / 2 ? i : i + (kMostStreams - n) / 2; };
    const bool unitary = factor_ == IsometryFactor::unitary;
    Row k[2] = {};
    for (int i = 0; i < n; ++i) {
      k[0][unitary ? padded(i) : i] = raw[i];
      k[1][i] = unitary ? 0 : raw[n + i];
    }
    const auto first = manifold::normalise(k[0]).direction;
    if (!unitary)
      return manifold::householder(first) *
             manifold::householder(manifold::normalise(k[1]).direction);
    const auto wide = manifold::complex_reflection(first, raw[n]);
    auto g = manifold::identity<double, kMostStreams>();
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < n; ++j) g(i, j) = wide(padded(i), padded(j));
    return g;
  }

  // A plane turned by θ: the trace is n − 2 + 2 cos θ, and tan²(θ/2) = (1 − cos θ)/(1 + cos θ).
  static double angle_of(const Square& g) {
    double trace = 0;
    for (int i = 0; i < kMostStreams; ++i) trace += g(i, i);
    const double cosine = (trace - (kMostStreams - 2)) / 2;
    return cosine >= 1    ? 0
           : cosine <= -1 ? 2 * __builtin_atan(__builtin_inf())
                          : 2 * __builtin_atan(__builtin_sqrt((1 - cosine) / (1 + cosine)));
  }

  int width_, streams_, factors_;
  IsometryFactor factor_;
  Summary summary_;
  int count_;
  Perceptron perceptron_;
  Linear linear_;
  double *raw_, *curved_, *straight_, *mixed_, *angles_;
};

}  // namespace

Connection* make_isometry(const ConnectionSource& source) {
  return source.arena.make<Isometry>(source);
}

}  // namespace geores::portable
