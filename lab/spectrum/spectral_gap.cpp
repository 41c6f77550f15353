#include "lab/spectrum/spectral_gap.h"

#include <Eigen/Eigenvalues>
#include <cmath>
#include <ctime>
#include <random>

#include "geores/base/error.h"
#include "lab/spectrum/symmetric_group.h"
#include "lab/spectrum/threads.h"

namespace geores::spectral {
namespace {

constexpr double tie = 1e-9;

double spectral_radius(const Eigen::MatrixXd& matrix) {
  if (matrix.rows() == 1) return std::abs(matrix(0, 0));
  return matrix.eigenvalues().cwiseAbs().maxCoeff();
}

// max |λ| over the non-trivial representations; stops as soon as it exceeds `enough`.
double second_eigenvalue(const SymmetricGroup& group, const std::vector<int>& set, double enough) {
  double largest = 0;
  Eigen::MatrixXd average;
  for (const auto& representation : group.irreducibles()) {
    average = representation[set[0]];
    for (std::size_t i = 1; i < set.size(); ++i) average += representation[set[i]];
    average /= static_cast<double>(set.size());
    const double mean = std::abs(average.trace()) / static_cast<double>(average.rows());
    if (mean > enough) return mean;  // a mean of eigenvalues: the largest is no smaller
    largest = std::max(largest, spectral_radius(average));
    if (largest > enough) return largest;
  }
  return largest;
}

bool next_subset(std::vector<int>& set, int order, int fixed) {
  const int size = static_cast<int>(set.size());
  int i = size - 1;
  while (i >= fixed && set[i] == order - size + i) --i;
  if (i < fixed) return false;
  ++set[i];
  for (int j = i + 1; j < size; ++j) set[j] = set[j - 1] + 1;
  return true;
}

struct Best {
  std::int64_t subsets = 0, generating = 0, count = 0;
  double second = 2;
  std::vector<int> set;

  void consider(const SymmetricGroup& group, const std::vector<int>& candidate) {
    ++subsets;
    if (!group.generates(candidate)) return;
    ++generating;
    const double value = second_eigenvalue(group, candidate, second + tie);
    if (value > second + tie) return;
    if (value < second - tie) {
      second = value;
      set = candidate;
      count = 0;
    }
    ++count;
  }
};

double choose(int from, int how_many) {
  double result = 1;
  for (int i = 0; i < how_many; ++i) result = result * (from - i) / (i + 1);
  return std::round(result);
}

// Seconds that the whole search would take on one thread, from a trial on random subsets.
double expected_seconds(const SymmetricGroup& group, int generators, double subsets) {
  std::mt19937_64 generator(1);
  std::vector<int> order(group.order());
  for (int g = 0; g < group.order(); ++g) order[g] = g;
  Best best;
  const auto start = std::clock();  // processor time: a busy machine does not change the estimate
  double elapsed = 0;
  while (elapsed < 0.05) {
    for (int repeat = 0; repeat < 100; ++repeat) {
      for (int i = 0; i < generators; ++i) {
        std::swap(order[i], order[i + generator() % (order.size() - i)]);
      }
      best.consider(group, {order.begin(), order.begin() + generators});
    }
    elapsed = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  }
  return elapsed / static_cast<double>(best.subsets) * subsets;
}

}  // namespace

GapSearch search_spectral_gap(int streams, int generators, double limit_seconds, int threads) {
  const SymmetricGroup group(streams);
  require(generators >= 1 && generators <= group.order(), "spectral-gap",
          "generators must be 1 ... {} for {} streams, got {}", group.order(), streams, generators);
  require(limit_seconds > 0, "spectral-gap", "the time limit must be > 0 seconds, got {}",
          limit_seconds);
  const double subsets = choose(group.order(), generators);
  if (subsets > 1e5) {
    const double seconds = expected_seconds(group, generators, subsets);
    require(
        seconds <= limit_seconds, "spectral-gap",
        "{} streams with {} generators have {:.4g} subsets, about {:.3g} s on one core; the limit "
        "is {:.3g} s",
        streams, generators, subsets, seconds, limit_seconds);
  }
  const int starts = group.order() - generators + 1;
  std::vector<Best> found(starts);
  on_threads(threads)(starts, [&](int first) {
    std::vector<int> set(generators);
    for (int i = 0; i < generators; ++i) set[i] = first + i;
    do {
      found[first].consider(group, set);
    } while (next_subset(set, group.order(), 1));
  });
  GapSearch result;
  const Best* winner = nullptr;
  for (const auto& best : found) {
    result.subsets += best.subsets;
    result.generating += best.generating;
    if (best.set.empty()) continue;
    if (winner == nullptr || best.second < winner->second - tie) {
      winner = &best;
      result.best_count = 0;
    }
    if (best.second <= winner->second + tie) result.best_count += best.count;
  }
  require(winner != nullptr, "spectral-gap", "no set of {} permutations generates S_{}", generators,
          streams);
  result.best_gap = 1 - winner->second;
  for (const int g : winner->set) result.best.push_back(group.element(g));
  return result;
}

}  // namespace geores::spectral
