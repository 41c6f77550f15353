// The GPU's kernels of the loss, emulated, against their definitions.
#ifdef GEORES_EMULATED_KERNELS
#include <gtest/gtest.h>

#include <bit>

#include "geores/kernels/emulated_check_test.h"
#include "geores/kernels/training/cross_entropy.h"

namespace geores::kernels {
namespace {

double number(float x) { return x; }
double number(double x) { return x; }
double number(BFloat16 x) { return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16); }

void put(float x, float& to) { to = x; }
void put(double x, double& to) { to = x; }
void put(float x, BFloat16& to) {
  to.bits = static_cast<uint16_t>(std::bit_cast<uint32_t>(x) >> 16);
}

// Overwrites the logits if their kernel allows it, as the loss does.
template <class T, class L, class A>
void compare_cross_entropy(int64_t rows, int64_t vocabulary) {
  const auto what = std::to_string(vocabulary) + " of " + std::to_string(sizeof(L)) + " bytes";
  auto drawn_logits = drawn<T>(rows * vocabulary);
  std::vector<L> logits(drawn_logits.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    put(3 * drawn_logits[i], logits[i]);
    drawn_logits[i] = static_cast<T>(number(logits[i]));
  }
  std::vector<int64_t> targets(static_cast<size_t>(rows));
  for (int64_t r = 0; r < rows; ++r)
    targets[static_cast<size_t>(r)] = r == 1 ? -1 : (r + 1) * (vocabulary - 1) / rows;
  const T count = T(rows - 1);
  Values<double> wanted_losses, wanted;
  for (int64_t r = 0; r < rows; ++r) {
    const auto* x = drawn_logits.data() + r * vocabulary;
    const auto target = targets[static_cast<size_t>(r)];
    double sum = 0;
    for (int64_t i = 0; i < vocabulary; ++i) sum += std::exp(static_cast<double>(x[i]));
    wanted_losses.push_back(target < 0 ? 0 : std::log(sum) - static_cast<double>(x[target]));
    for (int64_t i = 0; i < vocabulary; ++i)
      wanted.push_back(
          target < 0 ? 0 : (std::exp(static_cast<double>(x[i])) / sum - (i == target)) / count);
  }
  auto losses = zeros<T>(rows);
  std::vector<L> apart(logits.size());
  const bool in_place = holds_logits(vocabulary, sizeof(L));
  auto* gradients = reinterpret_cast<A*>(in_place ? logits.data() : apart.data());
  const auto row = in_place ? vocabulary * static_cast<int64_t>(sizeof(L) / sizeof(A)) : vocabulary;
  cross_entropy_rows<T, L, A>(kStream, logits.data(), targets.data(), &count, losses.data(),
                              nullptr, 0, rows, vocabulary);
  const auto without = losses;
  cross_entropy_rows<T, L, A>(kStream, logits.data(), targets.data(), &count, losses.data(),
                              gradients, row, rows, vocabulary);
  for (int64_t r = 0; r < rows; ++r) {
    const auto at = static_cast<size_t>(r);
    EXPECT_NEAR(losses[at], wanted_losses[at], 1e-5) << what;
    EXPECT_EQ(losses[at], without[at]) << what;
    double error = 0;
    for (int64_t i = 0; i < vocabulary; ++i) {
      const auto is = number(gradients[r * row + i]);
      const auto right = wanted[static_cast<size_t>(r * vocabulary + i)];
      const auto off = std::abs(is - right) / (std::abs(right) + 1e-7);
      if (!(off <= error)) error = off;
    }
    EXPECT_LT(error, sizeof(A) == 2 ? 5e-3 : 2e-4) << what << " row " << r;
  }
}

TEST(EmulatedLoss, CrossEntropyAndItsGradientsOverTheLogits) {
  static_assert(holds_logits(100000, 2) && !holds_logits(4100, 2) && holds_logits(4100, 4) &&
                holds_logits(50304, 4) && !holds_logits(4101, 4) && !holds_logits(65536, 4) &&
                !holds_logits(5000, 8));
  for (const int64_t vocabulary : {12, 4100, 17000})
    compare_cross_entropy<float, float, BFloat16>(4, vocabulary);
  for (const int64_t vocabulary : {12, 13, 4104, 17000})
    compare_cross_entropy<float, BFloat16, BFloat16>(4, vocabulary);
  compare_cross_entropy<float, float, float>(3, 4096);
  compare_cross_entropy<float, float, float>(3, 4101);
  compare_cross_entropy<double, double, double>(3, 4100);
}

template <class T>
void compare_scaled(int64_t size, int64_t from) {
  const auto x = drawn<T>(size);
  auto sum = drawn<T>(size + from);
  const auto before = sum;
  const T factor = T(0.3);
  add_scaled(kStream, x.data(), &factor, sum.data() + from, size);
  auto wanted = before;
  for (int64_t i = 0; i < size; ++i)
    wanted[static_cast<size_t>(from + i)] += factor * x[static_cast<size_t>(i)];
  expect_close(sum, wanted, std::to_string(size) + " from " + std::to_string(from));
}

TEST(EmulatedLoss, ScaledGradientsAreAdded) {
  for (const int64_t size : {1, 7, 8, 1028}) {
    compare_scaled<float>(size, 0);
    compare_scaled<float>(size, 3);
    compare_scaled<double>(size, 1);
  }
}

}  // namespace
}  // namespace geores::kernels
#endif
