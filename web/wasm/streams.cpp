// The widgets of several streams: drift, sweeps, iterative.
#include "web/wasm/operators.h"

namespace {

using namespace geores::manifold;
using namespace geores::web;

// ---- drift: n = 4 streams of width 8, a fresh operator in every layer ----

constexpr int kLines = 10;

constexpr int kLayers = 96;
constexpr int kWidth = 8;
using State = Matrix<double, kStreams, kWidth>;
using Operator = Matrix<double, kStreams>;

enum class Line { additive, edelta, ddl, mhc, jpmhc, rotation, hc, shc, permutation, grassmann };

// Where an operator's numbers come from.
enum class Numbers { random, initial, trained };

struct Drift {
  int layers;
  double g, alignment, gamma, beta;
  unsigned long long seed;
  bool backward;
  Numbers numbers;
  const double* trained;  // of HC, mHC and sHC, kSublayers matrices each
};

Square layer_operator(const Drift& how, Line line, int layer) {
  auto random = stream_of(how.seed, static_cast<int>(line), layer);
  constexpr int n = kStreams;
  const bool initial = how.numbers == Numbers::initial;
  const auto trained = [&](int connection) {
    return trained_mixer(how.trained + connection * kSublayers * n * n, layer);
  };
  switch (line) {
    case Line::additive:
      return identity<double, kMostStreams>();
    case Line::edelta:
    case Line::rotation: {
      const bool turns = line == Line::rotation;
      if (initial) return hybrid_at_start(random, n, turns ? 1 : kGateAtStart);
      const auto u = seeded_row(random, n), v = seeded_row(random, n), k = seeded_row(random, n);
      return hybrid(u, v, k, 1, turns ? 1 : how.gamma);
    }
    case Line::ddl:
      return erasing(seeded_row(random, n), initial ? 1 : how.beta);
    case Line::mhc:
      if (how.numbers == Numbers::trained) return trained(1);
      return initial ? sinkhorn_at_start(n) : doubly_stochastic(seeded_block(random, n, 1), n, 20);
    case Line::jpmhc:
      return fixed_point_rotation(seeded_block(random, n, initial ? kWeightsAtStart : 1));
    case Line::hc:
      if (how.numbers == Numbers::trained) return trained(0);
      return identity<double, kMostStreams>() + seeded_block(random, n, initial ? 0 : 0.1);
    case Line::shc: {
      if (how.numbers == Numbers::trained) return trained(2);
      if (initial) return sphere_at_start(n);
      const auto u = seeded_block(random, n, 1), v = seeded_block(random, n, 1);
      return sphere(u, v, seeded_row(random, n), n);
    }
    case Line::permutation: {
      const JpmhcPermutations<n> set(how.seed);
      auto logits = seeded_row(random, set.count);
      if (initial)
        for (int m = 0; m < set.count; ++m) logits[m] = m == 0 ? 0 : -8;
      return mixture<n>(logits.at, set);
    }
    case Line::grassmann:
      return projector(seeded_block(random, n, 1), n);
  }
  return {};
}

State seeded_state(SplitMix64 random) {
  State x{};
  for (int i = 0; i < kStreams; ++i)
    for (int j = 0; j < kWidth; ++j) x(i, j) = random.normal();
  return x;
}

double norm(const State& x) { return square_root(inner(x, x)); }

// A branch of length g‖x₀‖ whose cosine with the state is `alignment`.
State branch(const State& x, const Drift& how, double start, State across) {
  const double size = norm(x);
  const auto along = size > 0 ? (1 / size) * x : State{};
  across = across - inner(across, along) * along;
  const double sine_ = square_root(1 - how.alignment * how.alignment);
  return (how.g * start * how.alignment) * along + (how.g * start * sine_ / norm(across)) * across;
}

Operator leading(const Square& a) {
  Operator result{};
  for (int i = 0; i < kStreams; ++i)
    for (int j = 0; j < kStreams; ++j) result(i, j) = a(i, j);
  return result;
}

// Constant while a slider other than the seed moves: the operators without parameters,
// and the directions of the branches.
class Drawn {
 public:
  const State& direction(const Drift& how, int layer) {
    prepare(how);
    if (!has_direction_[layer]) {
      directions_[layer] = seeded_state(stream_of(how.seed, 200, layer));
      has_direction_[layer] = true;
    }
    return directions_[layer];
  }

  Operator layer(const Drift& how, Line line, int layer) {
    if (line == Line::edelta || line == Line::ddl || how.numbers == Numbers::trained)
      return leading(layer_operator(how, line, layer));
    prepare(how);
    const int index = static_cast<int>(line);
    if (!has_operator_[index][layer]) {
      operators_[index][layer] = leading(layer_operator(how, line, layer));
      has_operator_[index][layer] = true;
    }
    return operators_[index][layer];
  }

 private:
  void prepare(const Drift& how) {
    const auto key = 2 * how.seed + (how.numbers == Numbers::initial ? 2 : 1);
    if (key == key_) return;
    key_ = key;
    for (bool& has : has_direction_) has = false;
    for (auto& line : has_operator_)
      for (bool& has : line) has = false;
  }

  unsigned long long key_ = 0;  // of seed and numbers; all zero at the start costs no bytes
  bool has_direction_[kLayers + 1] = {}, has_operator_[kLines][kLayers + 1] = {};
  State directions_[kLayers + 1];
  Operator operators_[kLines][kLayers + 1];
} drawn;

// ‖x_l‖/‖x₀‖ for l = 0 … layers; `strip` gets the streams' own, four a layer.
void follow(const Drift& how, Line line, double* norms, double* strip) {
  auto x = seeded_state(stream_of(how.seed, 100, 0));
  const double start = norm(x);
  for (int l = 0; l <= how.layers; ++l) {
    if (l > 0) {
      const int layer = how.backward ? how.layers + 1 - l : l;
      const auto r = drawn.layer(how, line, layer);
      x = (how.backward ? transpose(r) : r) * x;
      if (how.g > 0) x = x + branch(x, how, start, drawn.direction(how, layer));
    }
    norms[l] = norm(x) / start;
    if (strip == nullptr) continue;
    for (int i = 0; i < kStreams; ++i) {
      double square = 0;
      for (int j = 0; j < kWidth; ++j) square += x(i, j) * x(i, j);
      strip[kStreams * l + i] = square_root(square) / start;
    }
  }
}

template <class Struct>
Drift drift_of(const Struct& in) {
  return {static_cast<int>(clamp(in.layers.value, 1.0, 96.0)),
          in.g,
          in.alignment,
          in.gamma,
          in.beta,
          static_cast<unsigned long long>(in.seed.value),
          in.backward != 0,
          static_cast<Numbers>(static_cast<int>(in.numbers)),
          in.trained.at};
}

double median(double* values, int count) {
  for (int i = 1; i < count; ++i)
    for (int k = i; k > 0 && values[k] < values[k - 1]; --k) exchange(values[k], values[k - 1]);
  return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

}  // namespace

#define DRIFT_INPUTS(IN) \
  IN(layers, 1)          \
  IN(g, 1)               \
  IN(alignment, 1)       \
  IN(gamma, 1)           \
  IN(beta, 1) IN(seed, 1) IN(backward, 1) IN(focus, 1) IN(numbers, 1) IN(trained, 1152)
#define DRIFT_FIELDS(IN, OUT) DRIFT_INPUTS(IN) OUT(norms, 970) OUT(strip, 388) OUT(ends, 10)
#define DRIFT_MEDIAN_FIELDS(IN, OUT) DRIFT_INPUTS(IN) OUT(medians, 10)

GEORES_EXPORT(drift, DRIFT_FIELDS) {
  const auto how = drift_of(drift);
  for (double& value : drift.norms.at) value = 0;
  for (double& value : drift.strip.at) value = 0;
  for (int line = 0; line < kLines; ++line) {
    double* norms = drift.norms.at + (kLayers + 1) * line;
    follow(how, static_cast<Line>(line), norms,
           line == static_cast<int>(drift.focus) ? drift.strip.at : nullptr);
    drift.ends[line] = norms[how.layers];
  }
}

GEORES_EXPORT(drift_median, DRIFT_MEDIAN_FIELDS) {
  constexpr int draws = 20;
  auto how = drift_of(drift_median);
  const auto first = how.seed;
  double norms[kLayers + 1], ends[kLines][draws];
  for (int draw = 0; draw < draws; ++draw) {
    how.seed = first + draw;
    for (int line = 0; line < kLines; ++line) {
      follow(how, static_cast<Line>(line), norms, nullptr);
      ends[line][draw] = norms[how.layers];
    }
  }
  for (int line = 0; line < kLines; ++line) drift_median.medians[line] = median(ends[line], draws);
}

// ---- sweeps: Sinkhorn's gradient ----

#define SWEEPS_FIELDS(IN, OUT) IN(off, 1) IN(seed, 1) OUT(errors, 65) OUT(direct, 1)

// Sinkhorn's implicit gradient where mHC starts (diagonal 0, the rest `off`, n = 4): the error of
// Gauss–Seidel sweeps against the direct solve, root mean square over all cotangents (linear in
// them, so the sixteen axes are enough). `direct` says how far the direct solve is from its
// equations: row and column sums of the gradient are zero. The seed is not used.
GEORES_EXPORT(sweeps, SWEEPS_FIELDS) {
  Matrix<double, 4> logits{};
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j) logits(i, j) = i == j ? 0 : sweeps.off.value;
  const auto p = sinkhorn(logits);
  double size = 0;
  for (double& error : sweeps.errors.at) error = 0;
  sweeps.direct = 0;
  for (int axis = 0; axis < 16; ++axis) {
    Matrix<double, 4> cotangent{};
    cotangent(axis / 4, axis % 4) = 1;
    const auto gradient = sinkhorn_backward_implicit(logits, p, cotangent);
    size += inner(gradient, gradient);
    for (int i = 0; i < 4; ++i) {
      double row = 0, column_ = 0;
      for (int j = 0; j < 4; ++j) {
        row += gradient(i, j);
        column_ += gradient(j, i);
      }
      sweeps.direct = larger(sweeps.direct.value, larger(absolute(row), absolute(column_)));
    }
    for (int count = 0; count <= 64; ++count) {
      const auto apart = sinkhorn_backward_gauss_seidel(logits, p, cotangent, count) - gradient;
      sweeps.errors[count] += inner(apart, apart);
    }
  }
  for (double& error : sweeps.errors.at) error = square_root(error / size);
  sweeps.direct = sweeps.direct / square_root(size);
}

// ---- iterative: JPmHC's fixed-point Cayley map of two planes ----

#define ITERATIVE_FIELDS(IN, OUT) \
  IN(m, 1)                        \
  IN(steps, 1)                    \
  IN(from_identity, 1)            \
  IN(ratio, 1)                    \
  OUT(defect, 1)                  \
  OUT(plane_m, 2)                 \
  OUT(plane_defect, 2)            \
  OUT(plane_formula, 2)           \
  OUT(re, 4)                      \
  OUT(im, 4)                      \
  OUT(exact_re, 4)                \
  OUT(exact_im, 4) OUT(minus_identity, 1) OUT(limit, 1) OUT(grid, 111) OUT(formulas, 444)

namespace {

// ‖YᵀY − I‖ in a plane with singular value m, after `steps` steps from I + αW. (From Y₀ = I the
// first step leads there, so one step less counts.)
double defect_formula(int steps, double m) {
  const double m2 = m * m;
  switch (steps) {
    case 0:
      return m2;
    case 1:
      return m2 * m2 / 4;
    case 2:
      return m2 * m2 * absolute(4 - m2) / 16;
    default:
      return m2 * m2 * m2 * absolute(4 - m2) / 64;
  }
}

double limit_of_two_steps(double defect) {
  double low = 0, high = 1;  // the formula increases up to m = √(8/3)
  for (int turn = 0; turn < 60; ++turn) {
    const double middle = (low + high) / 2;
    (defect_formula(2, middle) <= defect ? low : high) = middle;
  }
  return low;
}

void pack_eigenvalues(const Square& a, double* re, double* im) {
  const auto values = eigenvalues_of(a, 4);
  for (int i = 0; i < 4; ++i) {
    re[i] = values.re[i];
    im[i] = values.im[i];
  }
}

}  // namespace

GEORES_EXPORT(iterative, ITERATIVE_FIELDS) {
  const int steps = static_cast<int>(iterative.steps) - (iterative.from_identity != 0 ? 1 : 0);
  const double sizes[2] = {iterative.m, iterative.m * iterative.ratio};
  Square w{};
  for (int plane = 0; plane < 2; ++plane) {
    w(2 * plane, 2 * plane + 1) = -sizes[plane];
    w(2 * plane + 1, 2 * plane) = sizes[plane];
  }
  const auto y = block(cayley_iteration(w, 1.0, steps), 4, 0);
  const auto defect = gram_defect(y, 4);
  iterative.defect = spectral_norm(defect);
  for (int plane = 0; plane < 2; ++plane) {
    iterative.plane_m[plane] = sizes[plane];
    iterative.plane_defect[plane] = absolute(defect(2 * plane, 2 * plane));
    iterative.plane_formula[plane] = defect_formula(steps, sizes[plane]);
  }
  pack_eigenvalues(y, iterative.re.at, iterative.im.at);
  pack_eigenvalues(block(cayley_transform(-0.5 * w), 4, 0), iterative.exact_re.at,
                   iterative.exact_im.at);
  iterative.minus_identity = largest_entry(y + block(identity<double, kMostStreams>(), 4, 0));
  iterative.limit = limit_of_two_steps(1e-3);
  for (int i = 0; i < 111; ++i) {
    iterative.grid[i] = 0.02 * i;
    for (int s = 0; s < 4; ++s)
      iterative.formulas[111 * s + i] = defect_formula(s, iterative.grid[i]);
  }
}
