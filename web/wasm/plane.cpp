// The widgets of one plane: turn, missing, gate.
#include "geores/manifold/cayley.h"
#include "geores/manifold/cayley_general.h"
#include "geores/manifold/hybrid.h"
#include "web/wasm/padded.h"

namespace {

using namespace geores::manifold;
using namespace geores::web;

template <class T, int N>
Matrix<T, N> generator(const Vector<T, N>& u, const Vector<T, N>& v) {
  return outer(u, v) - outer(v, u);
}

using Vector4 = Vector<double, 4>;
using Matrix4 = Matrix<double, 4>;

// Q by the closed form or by a solve, computed in T.
template <class T>
Matrix4 rotation_in(const Vector4& u, const Vector4& v, double beta, bool by_solve) {
  const auto u_in = converted<T>(u), v_in = converted<T>(v);
  const auto beta_in = static_cast<T>(beta);
  return converted<double>(by_solve ? cayley_transform((beta_in / T(2)) * generator(u_in, v_in))
                                    : cayley_rotation(u_in, v_in, beta_in));
}

Matrix4 rotation(const Vector4& u, const Vector4& v, double beta, bool single, bool by_solve) {
  return single ? rotation_in<float>(u, v, beta, by_solve)
                : rotation_in<double>(u, v, beta, by_solve);
}

// βμ that turns by `angle`; 0 where none is asked for.
double product_for(double angle) {
  return angle == 0 ? 0 : 2 * sine(angle / 2) / cosine(angle / 2);
}

}  // namespace

#define POLAR_FIELDS(IN, OUT) IN(x, 1) IN(y, 1) OUT(length, 1) OUT(radians, 1) OUT(degrees, 1)

GEORES_EXPORT(polar, POLAR_FIELDS) {
  const auto [along, length] = normalise(Vector<double, 2>{{polar.x, polar.y}});
  polar.length = length;
  double angle = 0;
  if (length > 0) {
    // Half-angle form: no quadrant is special but the one the other branch takes.
    angle = along[0] > 0 ? 2 * arctangent(along[1] / (1 + along[0]))
                         : 2 * arctangent((1 - along[0]) / along[1]);
    if (along[1] == 0) angle = along[0] < 0 ? pi : 0;
    if (angle < 0) angle += 2 * pi;
  }
  polar.radians = angle;
  polar.degrees = angle * (180 / pi);
}

// Four orthonormal directions, the first two of float32 numbers: both precisions start from the same.
struct Frame {
  Vector4 axes[4];

  explicit Frame(double seed) {
    auto random = seeded(seed);
    for (int i = 0; i < 4; ++i) {
      auto x = normal_vector<double, 4>(random);
      for (int k = 0; k < i; ++k) x = x - dot(x, axes[k]) * axes[k];
      const auto along = normalise(x).direction;
      axes[i] = i < 2 ? rounded(along) : along;
    }
  }

  static Vector4 rounded(const Vector4& x) { return converted<double>(converted<float>(x)); }
  Vector4 operator()(double x, double y) const { return rounded(x * axes[0] + y * axes[1]); }
};

#define TURN_FIELDS(IN, OUT) \
  IN(beta, 1)                \
  IN(ux, 1)                  \
  IN(uy, 1)                  \
  IN(vx, 1)                  \
  IN(vy, 1)                  \
  IN(single, 1)              \
  IN(solve, 1)               \
  IN(seed, 1)                \
  IN(wanted, 1)              \
  OUT(a, 4)                  \
  OUT(area, 1)               \
  OUT(mu, 1)                 \
  OUT(q, 4)                  \
  OUT(det, 1)                \
  OUT(theta, 1)              \
  OUT(gap, 1)                \
  OUT(beta_for_wanted, 1)    \
  OUT(kept, 4)               \
  OUT(gram, 16)              \
  OUT(defect, 1)             \
  OUT(grid, 51) OUT(closed64, 51) OUT(solve64, 51) OUT(closed32, 51) OUT(solve32, 51)

// u and v are drawn in their plane, but Q is made in four dimensions, where that plane lies askew: along the
// axes every way of computing is exact. `kept` is Q on the plane that it must leave alone.
GEORES_EXPORT(turn, TURN_FIELDS) {
  const Vector4 u{{turn.ux, turn.uy, 0, 0}}, v{{turn.vx, turn.vy, 0, 0}};
  const auto plane = rotation_plane(u, v, turn.beta.value);
  const auto exact = padded(cayley_rotation(plane));
  pack_block(padded(generator(u, v)), 2, turn.a.at);
  turn.area = generator(u, v)(0, 1);
  turn.mu = plane.mu;
  pack_block(exact, 2, turn.q.at);
  turn.theta = 2 * arctangent(plane.omega);
  turn.gap = plane.omega > 0 ? 2 * arctangent(1 / plane.omega) : pi;
  turn.beta_for_wanted = plane.mu > 0 ? product_for(turn.wanted) / plane.mu : 0;

  const Frame frame(turn.seed);
  const auto u4 = frame(turn.ux, turn.uy);
  const auto v4 =
      plane.mu > 0 ? frame(turn.vx, turn.vy) : Vector4{};  // parallel ones stay parallel
  const bool single = turn.single != 0, by_solve = turn.solve != 0;
  const auto q = rotation(u4, v4, turn.beta, single, by_solve);
  for (int i = 0; i < 4; ++i) turn.kept[i] = dot(frame.axes[2 + i / 2], q * frame.axes[2 + i % 2]);
  pack(transpose(q) * q, turn.gram.at);
  turn.det = determinant_of(padded(q), 4);
  turn.defect = orthogonality_defect(q);
  for (int i = 0; i < 51; ++i) {
    const double beta = static_cast<float>(exponential(logarithm(10.0) * (i - 10) / 5));
    turn.grid[i] = beta;
    turn.closed64[i] = orthogonality_defect(rotation(u4, v4, beta, false, false));
    turn.solve64[i] = orthogonality_defect(rotation(u4, v4, beta, false, true));
    turn.closed32[i] = orthogonality_defect(rotation(u4, v4, beta, true, false));
    turn.solve32[i] = orthogonality_defect(rotation(u4, v4, beta, true, true));
  }
}

#define MISSING_FIELDS(IN, OUT) \
  IN(bm, 1)                     \
  IN(beta, 1)                   \
  IN(k, 1)                      \
  IN(wanted, 1)                 \
  OUT(q, 4)                     \
  OUT(theta, 1)                 \
  OUT(re, 1)                    \
  OUT(im, 1)                    \
  OUT(gap, 1)                   \
  OUT(distance, 1)              \
  OUT(cosine, 1)                \
  OUT(bm_for_wanted, 1) OUT(h, 4) OUT(h_eigenvalues, 2) OUT(h_det, 1) OUT(h_sigma_min, 1)

GEORES_EXPORT(missing, MISSING_FIELDS) {
  const Vector4 u{{1, 0, 0, 0}}, v{{0, 1, 0, 0}};
  const auto plane = rotation_plane(u, v, missing.bm.value);
  const auto q = cayley_rotation(plane);
  const auto pair = eigenvalues_of(padded(q), 2);
  pack_block(padded(q), 2, missing.q.at);
  missing.theta = 2 * arctangent(plane.omega);
  missing.re = pair.re[0];
  missing.im = pair.im[0];
  // π − θ without its cancellation, and |λ + 1| = 2 cos(θ/2).
  missing.gap = plane.omega > 0 ? 2 * arctangent(1 / plane.omega) : pi;
  missing.distance = 2 * square_root(plane.cos_squared);
  missing.cosine = -dot(u, q * u);
  missing.bm_for_wanted = product_for(missing.wanted);

  const auto along = direction(missing.k);
  const auto h = delta_operator(Row{{along[0], along[1]}}, missing.beta.value);
  const auto values = eigenvalues_of(h, 2);
  pack_block(h, 2, missing.h.at);
  missing.h_eigenvalues[0] = values.re[1];
  missing.h_eigenvalues[1] = values.re[0];
  missing.h_det = determinant_of(h, 2);
  missing.h_sigma_min = singular_values_of(h, 2)[1];
}

#define GATE_FIELDS(IN, OUT) \
  IN(gamma, 1)               \
  IN(beta, 1)                \
  IN(k, 1)                   \
  IN(x0, 1)                  \
  IN(x1, 1)                  \
  IN(n, 1)                   \
  IN(seed, 1)                \
  OUT(q, 4)                  \
  OUT(h, 4)                  \
  OUT(g, 4)                  \
  OUT(qx, 2)                 \
  OUT(hx, 2)                 \
  OUT(gx, 2)                 \
  OUT(sigma, 2)              \
  OUT(directions, 4)         \
  OUT(defect, 1)             \
  OUT(sigma_min, 1)          \
  OUT(sigma_max, 1)          \
  OUT(det, 1)                \
  OUT(penalty, 1)            \
  OUT(smallest, 1)           \
  OUT(grid, 51)              \
  OUT(penalty_curve, 51)     \
  OUT(defect_curve, 51) OUT(smallest_curve, 51) OUT(sigma_min_curve, 51) OUT(det_curve, 51)

namespace {

using Generators = HybridGenerators<double, kMostStreams>;

// The operator that is drawn: n = 2, u and v the axes.
Generators drawn(double gamma, double beta, double k) {
  const auto along = direction(k);
  return {{{1}}, {{0, 1}}, {{along[0], along[1]}}, beta, gamma};
}

// A seeded one of n streams; numbers of the drawn one for n = 2.
Generators generators(int n, double gamma, double beta, double k, double seed) {
  if (n == 2) return drawn(gamma, beta, k);
  auto random = seeded(seed);
  Generators p{};
  p.u = seeded_row(random, n);
  p.v = seeded_row(random, n);
  p.k = normalise(seeded_row(random, n)).direction;
  p.beta = beta;
  p.gamma = gamma;
  return p;
}

void pack_two(const Row& x, double* to) {
  to[0] = x[0];
  to[1] = x[1];
}

struct Blend {
  double defect, sigma_min, sigma_max, det;
};

Blend measured(const Generators& p, int n) {
  const auto g = hybrid_operator(p);
  const auto sigma = singular_values_of(g, n);
  // The eigenvalues of GᵀG − I are σ² − 1.
  const double above = sigma[0] * sigma[0] - 1, below = 1 - sigma[n - 1] * sigma[n - 1];
  return {larger(absolute(above), absolute(below)), sigma[n - 1], sigma[0], determinant_of(g, n)};
}

}  // namespace

GEORES_EXPORT(gate, GATE_FIELDS) {
  const auto p = drawn(gate.gamma, gate.beta, gate.k);
  const auto q = cayley_rotation(p.u, p.v, p.beta), h = householder(p.k), g = hybrid_operator(p);
  const Row x{{gate.x0, gate.x1}};
  pack_block(q, 2, gate.q.at);
  pack_block(h, 2, gate.h.at);
  pack_block(g, 2, gate.g.at);
  pack_two(q * x, gate.qx.at);
  pack_two(h * x, gate.hx.at);
  pack_two(g * x, gate.gx.at);
  const auto axes = singular_value_decomposition(block(g, 2, 0));
  pack_two(axes.sigma, gate.sigma.at);
  // A circle has no axes of its own; of two axes, the second is orthogonal to the first.
  const bool circle = axes.sigma[0] - axes.sigma[1] < 1e-9;
  const double x_part = circle ? 1 : axes.u(0, 0), y_part = circle ? 0 : axes.u(1, 0);
  gate.directions[0] = gate.directions[3] = x_part;
  gate.directions[2] = y_part;
  gate.directions[1] = -y_part;

  const int n = static_cast<int>(gate.n);
  const auto at = [&](double gamma) {
    return measured(generators(n, gamma, gate.beta, gate.k, gate.seed), n);
  };
  const auto now = at(gate.gamma);
  gate.defect = now.defect;
  gate.sigma_min = now.sigma_min;
  gate.sigma_max = now.sigma_max;
  gate.det = now.det;
  gate.penalty = gate_penalty(gate.gamma.value);
  gate.smallest = absolute(2 * gate.gamma - 1);
  for (int i = 0; i < 51; ++i) {
    const double gamma = i / 50.0;
    const auto there = at(gamma);
    gate.grid[i] = gamma;
    gate.penalty_curve[i] = gate_penalty(gamma);
    gate.defect_curve[i] = there.defect;
    gate.smallest_curve[i] = absolute(2 * gamma - 1);
    gate.sigma_min_curve[i] = there.sigma_min;
    gate.det_curve[i] = there.det;
  }
}
