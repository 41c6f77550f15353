// The result of every theory of this folder, and the reference for Monte Carlo:
//   a(w) = tr_N w (w² − JᵀJ)⁻¹,   w in the upper half-plane,
// the Cauchy transform of the singular values of J made symmetric about zero. It maps the upper
// half-plane to the lower one and w a(w) → 1 for w → ∞. In terms of G, the Cauchy transform of the
// eigenvalues of JᵀJ: a(w) = w G(w²).
#pragma once

#include <complex>
#include <functional>

namespace geores::spectral {

using Complex = std::complex<double>;

// Evaluates a(w). It may remember its last solution and start the next one there, so it is cheap to
// walk along a path and must not be shared by threads.
using Resolvent = std::function<Complex(Complex w)>;

// Makes a fresh one: each thread, and each piece of a grid, asks for its own.
using ResolventFactory = std::function<Resolvent()>;

// How a computation of this folder runs its independent jobs, job(0) … job(count − 1): one after the
// other unless the caller brings another way (spectrum/threads.h has one that uses threads). No
// result depends on it.
using Job = std::function<void(int index)>;
using RunJobs = std::function<void(int count, const Job& job)>;

inline void one_by_one(int count, const Job& job) {
  for (int i = 0; i < count; ++i) job(i);
}

}  // namespace geores::spectral
