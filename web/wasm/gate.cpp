// The widget of the gate loss: trap.
#include "geores/manifold/gate_descent.h"
#include "web/wasm/pack.h"

using namespace geores::manifold;
using geores::web::seeded;

#define TRAP_FIELDS(IN, OUT) \
  IN(lambda, 1)              \
  IN(t, 1)                   \
  IN(b, 1)                   \
  IN(nudge, 1)               \
  IN(adamw, 1)               \
  IN(decay, 1)               \
  IN(steps, 1)               \
  IN(rate, 1)                \
  IN(noise, 1)               \
  IN(seed, 1)                \
  OUT(gamma_start, 1)        \
  OUT(gamma_end, 1)          \
  OUT(watershed, 1)          \
  OUT(watershed_exists, 1)   \
  OUT(grid, 101)             \
  OUT(landscape, 101)        \
  OUT(slope, 101)            \
  OUT(arrows, 21) OUT(path_step, 201) OUT(path, 201) OUT(others, 4020) OUT(other_ends, 20)

namespace {

constexpr int kPoints = 201;
constexpr int kOthers = 20;

struct Descent {
  GateForces<double> forces;
  bool adamw;
  double rate, decay, noise;
  int steps;
  double seed;
};

int step_of(int point, int steps) { return point * steps / (kPoints - 1); }

// γ at kPoints steps from 0 to the last one.
void follow(const Descent& how, double b, int number, double* path) {
  auto random = seeded(how.seed + 7919 * number);
  AdamWMoments<double> moments;
  const AdamWRates<double> rates{.rate = how.rate, .weight_decay = how.decay};
  int step = 0;
  for (int point = 0; point < kPoints; ++point) {
    for (; step < step_of(point, how.steps); ++step) {
      const double shift = how.noise > 0 ? how.noise * random.normal() : 0;
      const double slope = gate_logit_slope(b + shift, how.forces);
      b = how.adamw ? adamw_step(b, slope, moments, rates)
                    : descent_step(b, slope, how.rate, how.decay);
    }
    path[point] = gate_value(b);
  }
}

}  // namespace

GEORES_EXPORT(trap, TRAP_FIELDS) {
  const Descent how{{trap.lambda, trap.t},
                    trap.adamw != 0,
                    trap.rate,
                    trap.decay,
                    trap.noise,
                    static_cast<int>(clamp(trap.steps.value, 0.0, 10000.0)),
                    trap.seed};
  const double start = trap.b + trap.nudge;
  trap.gamma_start = gate_value(start);
  trap.watershed = gate_watershed(how.forces);
  trap.watershed_exists = trap.watershed == trap.watershed ? 1 : 0;
  for (int i = 0; i < 101; ++i) {
    trap.grid[i] = i / 100.0;
    trap.landscape[i] = gate_landscape(trap.grid[i], how.forces);
    trap.slope[i] = gate_slope(trap.grid[i], how.forces);
  }
  for (int i = 0; i < 21; ++i) trap.arrows[i] = -gate_slope(i / 20.0, how.forces);
  for (int point = 0; point < kPoints; ++point) trap.path_step[point] = step_of(point, how.steps);
  follow(how, start, 0, trap.path.at);
  trap.gamma_end = trap.path[kPoints - 1];
  for (int other = 0; other < kOthers; ++other) {
    const double offset = (other - (kOthers - 1) / 2.0) / ((kOthers - 1) / 2.0);  // −1 … 1, never 0
    double* path = trap.others.at + kPoints * other;
    follow(how, trap.b + offset, other + 1, path);
    trap.other_ends[other] = path[kPoints - 1];
  }
}
