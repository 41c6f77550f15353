// The widget of deep chains: spectrum. The page runs it in a worker, in pieces: spectrum_chain
// first, then densities, samples and summaries of that chain.
#include <algorithm>
#include <cmath>
#include <vector>

#include "geores/base/refusal.h"
#include "geores/spectral/chain_equation.h"
#include "geores/spectral/density.h"
#include "geores/spectral/layer.h"
#include "geores/spectral/mixer.h"
#include "geores/spectral/monte_carlo.h"
#include "geores/spectral/printed_equation.h"
#include "web/wasm/exports.h"

using namespace geores::spectral;
using geores::refuse_unless;

namespace {

constexpr int kMostLayers = 200;
constexpr int kMostStreams = 8;
constexpr int kGiven = 8;  // the number of kinds: a mixer of this number is given by the page

struct Now {
  Chain chain;
  double eta = 0.02;
  Sample sample;
} now;

const Chain& chain() {
  refuse_unless(!now.chain.empty(), "spectrum", "no chain is set");
  return now.chain;
}

Eigen::MatrixXd given_mixer(const double* values, int n) {
  return Eigen::Map<const Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>(
      values, n, n);
}

// About where the spectrum ends, for an axis: the largest singular value of three small samples.
// (density.h has the end itself, for seconds instead of milliseconds.)
double edge_of(const Chain& layers) {
  const auto sample = sample_singular_values(layers, {.samples = 3, .block = 12});
  return sample.all().back();
}

}  // namespace

#define CHAIN_FIELDS(IN, OUT) \
  IN(mixer, 1)                \
  IN(streams, 1)              \
  IN(depth, 1)                \
  IN(sigma2_total, 1)         \
  IN(eta, 1)                  \
  IN(seed, 1)                 \
  IN(given_layers, 1)         \
  IN(given_sigma2, 200)       \
  IN(given_mixers, 12800) OUT(edge, 1) OUT(exact_first, 1) OUT(exact_second, 1)

GEORES_EXPORT(spectrum_chain, CHAIN_FIELDS) {
  const auto& in = spectrum_chain;
  const int n = static_cast<int>(in.streams), kind = static_cast<int>(in.mixer);
  refuse_unless(n >= 1 && n <= kMostStreams, "spectrum", "streams must be 1 ... {}, got {}",
                kMostStreams, n);
  refuse_unless(kind >= 0 && kind <= kGiven, "spectrum", "mixer must be 0 ... {}, got {}", kGiven,
                kind);
  const int depth = static_cast<int>(kind == kGiven ? in.given_layers : in.depth);
  refuse_unless(depth >= 1 && depth <= kMostLayers, "spectrum", "depth must be 1 ... {}, got {}",
                kMostLayers, depth);
  std::vector<Eigen::MatrixXd> mixers;
  for (int l = 0; l < depth; ++l)
    mixers.push_back(kind == kGiven
                         ? given_mixer(in.given_mixers.at + kMostStreams * kMostStreams * l, n)
                         : draw_mixer(static_cast<Mixer>(kind), n,
                                      static_cast<std::uint64_t>(in.seed.value), l));
  now = {};
  auto made = make_chain(mixers, depth, in.sigma2_total);
  const double* variances = in.given_sigma2.at;
  if (kind == kGiven && std::any_of(variances, variances + depth, [](double x) { return x != 0; }))
    for (int l = 0; l < depth; ++l) made[l].sigma2 = variances[l];
  const auto moments = exact_moments(made);
  spectrum_chain.exact_first = moments.first;
  spectrum_chain.exact_second = moments.second;
  spectrum_chain.edge = edge_of(made);
  now.chain = std::move(made);
  now.eta = in.eta;
}

#define DENSITY_FIELDS(IN, OUT) IN(count, 1) IN(printed, 1) IN(s, 16) OUT(rho, 16)

GEORES_EXPORT(spectrum_density, DENSITY_FIELDS) {
  const int count = static_cast<int>(spectrum_density.count);
  refuse_unless(count >= 1 && count <= 16, "spectrum", "1 ... 16 points at a time, got {}", count);
  const std::vector<double> grid(spectrum_density.s.at, spectrum_density.s.at + count);
  const auto resolvent =
      spectrum_density.printed != 0 ? printed_resolvent(chain()) : chain_resolvent(chain());
  const auto curve = invert(resolvent, grid, now.eta);
  for (int i = 0; i < 16; ++i) spectrum_density.rho[i] = i < count ? curve.rho[i] : 0;
}

#define SUMMARY_FIELDS(IN, OUT) \
  IN(part, 1) OUT(near_zero, 1) OUT(low, 1) OUT(high, 1) OUT(first, 1) OUT(second, 1)

// One part a call, for each takes up to seconds at depth: 0 the fraction below 0.1, 1 and 2 the 5 %
// and 95 % quantiles, 3 the moments.
GEORES_EXPORT(spectrum_summary, SUMMARY_FIELDS) {
  auto& out = spectrum_summary;
  const auto resolvent = chain_resolvent(chain())();
  switch (static_cast<int>(out.part)) {
    case 0:
      out.near_zero = probability_below(resolvent, 0.1);
      break;
    case 1:
      out.low = quantile(resolvent, 0.05);
      break;
    case 2:
      out.high = quantile(resolvent, 0.95);
      break;
    default: {
      const auto moments = contour_moments(resolvent, 2 * edge_of(chain()));
      out.first = moments.first;
      out.second = moments.second;
    }
  }
}

#define SAMPLE_FIELDS(IN, OUT) \
  IN(first, 1) IN(count, 1) IN(block, 1) IN(seed, 1) OUT(values_count, 1) OUT(values, 4000)

GEORES_EXPORT(spectrum_sample, SAMPLE_FIELDS) {
  const auto& in = spectrum_sample;
  const auto width = static_cast<double>(chain().front().mixer.rows()) * in.block;
  refuse_unless(in.count >= 1 && in.count * width <= 4000, "spectrum",
                "{} samples of {} values do not fit 4000", in.count.value, width);
  const auto drawn =
      sample_singular_values(chain(), {.samples = static_cast<int>(in.count),
                                       .block = static_cast<int>(in.block),
                                       .seed = static_cast<std::uint64_t>(in.seed.value),
                                       .first = static_cast<int>(in.first)});
  int count = 0;
  for (const auto& values : drawn.singular_values) {
    for (const double value : values) spectrum_sample.values[count++] = value;
    now.sample.singular_values.push_back(values);
  }
  spectrum_sample.values_count = count;
  for (; count < 4000; ++count) spectrum_sample.values[count] = 0;
}

#define COMPARE_FIELDS(IN, OUT) \
  IN(points, 1)                 \
  IN(s, 512)                    \
  IN(theory, 512)               \
  OUT(rho, 512)                 \
  OUT(distance, 1)              \
  OUT(near_zero, 1) OUT(low, 1) OUT(high, 1) OUT(first, 1) OUT(second, 1) OUT(samples, 1)

// The samples so far, blurred as the theory is, next to the theory's values on the same grid.
GEORES_EXPORT(spectrum_compare, COMPARE_FIELDS) {
  auto& out = spectrum_compare;
  const int points = static_cast<int>(out.points);
  refuse_unless(points >= 2 && points <= 512, "spectrum", "2 ... 512 points, got {}", points);
  refuse_unless(!now.sample.singular_values.empty(), "spectrum", "no sample is drawn");
  const std::vector<double> grid(out.s.at, out.s.at + points);
  const Curve theory{grid, {out.theory.at, out.theory.at + points}};
  const auto sampled = invert(empirical_resolvent(now.sample), grid, now.eta);
  for (int i = 0; i < 512; ++i) out.rho[i] = i < points ? sampled.rho[i] : 0;
  const auto moments = now.sample.moments();
  out.distance = l1_distance(theory, sampled);
  out.near_zero = now.sample.fraction_below(0.1);
  out.low = now.sample.quantile(0.05);
  out.high = now.sample.quantile(0.95);
  out.first = moments.first;
  out.second = moments.second;
  out.samples = static_cast<double>(now.sample.singular_values.size());
}
