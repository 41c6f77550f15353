// Samples the random model of layer.h at a finite block size p and measures what the theory
// predicts. Sample i draws its own numbers, seeded by (seed, i): the result does not depend on the
// order in which samples are drawn. Cost per sample: L products and one singular value
// decomposition of (np, np) matrices.
#pragma once

#include <cstdint>
#include <vector>

#include "geores/spectral/layer.h"
#include "geores/spectral/resolvent.h"

namespace geores::spectral {

struct MonteCarlo {
  int samples = 500;
  int block = 25;  // p: width of one stream
  std::uint64_t seed = 1;
  int first = 0;  // number of the first sample: a long run can be drawn in pieces
};

struct Sample {
  std::vector<std::vector<double>> singular_values;  // one vector per sample, decreasing

  std::vector<double> all() const;        // pooled, increasing
  double fraction_below(double s) const;  // of all singular values
  double quantile(double q) const;        // of all singular values
  double median_condition() const;        // median over samples of s_max / s_min
  Moments moments() const;                // means of s² and s⁴
};

Sample sample_singular_values(const Chain& chain, const MonteCarlo& how,
                              const RunJobs& run = one_by_one);

// Any set of measured singular values: a trained model's Jacobian, for one.
Sample sample_from(std::vector<double> singular_values);

// a(w) of the sample itself, (1/N) Σ w / (w² − s_i²): inverting it at η blurs the histogram by
// exactly the kernel that the theory's curve at the same η carries, so that the two can be
// subtracted.
ResolventFactory empirical_resolvent(const Sample& sample);

}  // namespace geores::spectral
