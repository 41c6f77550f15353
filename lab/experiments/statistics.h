// Statistics of a few seeds: mean, standard deviation, and Welch's t-test for two means with
// different variances, from published numbers as well as our own.
#pragma once

#include <limits>
#include <vector>

namespace geores {

// Sample mean and standard deviation (n − 1). One value has no deviation (NaN).
struct Sample {
  double mean = std::numeric_limits<double>::quiet_NaN();
  double deviation = std::numeric_limits<double>::quiet_NaN();
  int count = 0;

  bool known() const { return count > 0; }
};
Sample sample_of(const std::vector<double>& values);

// t = (b − a)/√(s_a²/n_a + s_b²/n_b), positive if a is smaller; Welch–Satterthwaite degrees of
// freedom; p two-sided. All are NaN if either deviation is unknown.
struct Welch {
  double t, freedom, p;

  bool known() const { return p == p; }
};
Welch welch_test(const Sample& a, const Sample& b);

// The share of all pairs of a value of a and a value of b in which a is smaller; ties count half. 1
// and 0: the samples do not overlap. NaN if either is empty.
double share_of_pairs(const std::vector<double>& a, const std::vector<double>& b);

// P(|T| > |t|) for Student's T: the regularised incomplete beta function I_x(ν/2, ½) at
// x = ν/(ν + t²), by its continued fraction (Abramowitz & Stegun 26.5.8).
double student_two_sided(double t, double freedom);

}  // namespace geores
