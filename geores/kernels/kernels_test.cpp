// Properties of the kernels that can be checked without a second implementation. The tests of ops/
// compare the kernels with the composed operations.
#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "geores/kernels/attention/attention.h"
#include "geores/kernels/attention/rotary.h"
#include "geores/kernels/cpu/bfloat16_tile.h"
#include "geores/kernels/cpu/instructions.h"
#include "geores/kernels/cpu/product.h"
#include "geores/kernels/cpu/vector_math.h"
#include "geores/kernels/dense/linear.h"
#include "geores/kernels/norms/norm.h"
#include "geores/kernels/streams/streams.h"
#include "geores/kernels/training/optimizer.h"

namespace geores::kernels {
namespace {

template <class T>
std::vector<T> random_values(int64_t size, unsigned seed = 1) {
  std::mt19937 generator(seed);
  std::normal_distribution<T> normal;
  std::vector<T> values(static_cast<size_t>(size));
  for (auto& value : values) value = normal(generator);
  return values;
}

#ifdef GEORES_LEVELS
TEST(Instructions, KernelsHaveTheBestThatThisProcessorRuns) {
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl");
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("bmi2");
  EXPECT_STREQ(vector_instructions(), avx512 ? "AVX-512" : avx2 ? "AVX2" : "SSE2");
}
#endif

TEST(VectorMath, ExponentialIsExactToAFewUnitsInTheLastPlace) {
  for (float x = -86.5f; x < 88.0f; x += 0.0137f) {
    const auto expected = std::exp(static_cast<double>(x));
    EXPECT_NEAR(exponential(broadcast(x))[0] / expected, 1.0, 3e-7) << x;
  }
  EXPECT_LT(exponential(broadcast(-1e30f))[0], 1e-37f);
  EXPECT_TRUE(std::isnan(exponential(broadcast(std::nanf("")))[0]));
}

TEST(VectorMath, LogarithmIsExactToAFewUnitsInTheLastPlace) {
  for (float x = 1.2e-38f; x < 3e38f; x *= 1.0137f) {
    const auto expected = std::log(static_cast<double>(x));
    const auto limit = 2e-7 * std::max(1.0, std::abs(expected));
    EXPECT_NEAR(logarithm(broadcast(x))[0], expected, limit) << x;
  }
  // Where log is near 0 it is exact relative to itself.
  for (float x = 0.9f; x < 1.1f; x += 0.000137f) {
    const auto expected = std::log(static_cast<double>(x));
    EXPECT_NEAR(logarithm(broadcast(x))[0], expected, 2e-7 * std::abs(expected)) << x;
  }
  EXPECT_EQ(logarithm(broadcast(1.0f))[0], 0.0f);
  EXPECT_TRUE(std::isnan(logarithm(broadcast(std::nanf("")))[0]));
  EXPECT_TRUE(std::isinf(logarithm(broadcast(std::numeric_limits<float>::infinity()))[0]));
}

TEST(VectorMath, PowerOfTwoIsExactToAFewUnitsInTheLastPlace) {
  for (float x = -125.9f; x <= 0.0f; x += 0.0137f) {
    const auto expected = std::exp2(static_cast<double>(x));
    EXPECT_NEAR(power_of_two(broadcast(x))[0] / expected, 1.0, 3e-7) << x;
  }
  EXPECT_EQ(power_of_two(broadcast(0.0f))[0], 1.0f);
  EXPECT_LT(power_of_two(broadcast(-1e30f))[0], 2e-38f);
  EXPECT_TRUE(std::isnan(power_of_two(broadcast(std::nanf("")))[0]));
}

TEST(VectorMath, GeluAndItsSlopeFollowErf) {
  for (float x = -12.0f; x < 12.0f; x += 0.0031f) {
    const double phi = 0.5 * std::erfc(-x * M_SQRT1_2);
    const double slope = phi + x * std::exp(-0.5 * x * x) / std::sqrt(2 * M_PI);
    const auto g = gelu(broadcast(x));
    EXPECT_NEAR(g.value[0], x * phi, 2e-7 * std::max(1.0f, std::abs(x))) << x;
    EXPECT_NEAR(g.slope[0], slope, 5e-7) << x;
  }
  for (const float x : {1e3f, 1e10f, 1e30f, std::numeric_limits<float>::infinity()}) {
    const auto right = gelu(broadcast(x)), left = gelu(broadcast(-x));
    EXPECT_EQ(right.value[0], x);
    EXPECT_EQ(right.slope[0], 1.0f);
    EXPECT_NEAR(left.value[0], 0.0f, 1e-12);
    EXPECT_NEAR(left.slope[0], 0.0f, 1e-12);
  }
  EXPECT_TRUE(std::isnan(gelu(broadcast(std::nanf(""))).value[0]));
}

// x rounded to P, by a definition independent of the kernels.
template <class P, class T>
double factor(T x) {
  if (!std::is_same_v<P, BFloat16>) return x;
  int exponent;
  const double mantissa = std::frexp(static_cast<double>(x), &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(mantissa, 8)), exponent - 8);
}

// Odd sizes, leading dimensions larger than the width, more depth than is multiplied at once, and
// few rows.
template <class T, class P = T>
void expect_products_follow_their_definition(T tolerance) {
  struct Size {
    int64_t rows, depth, columns;
  };
  for (const auto [rows, depth, columns] : {Size{1, 3, 2},
                                            {1, 1, 1},
                                            {3, 17, 1},
                                            {17, 3, 129},
                                            {23, 40, 17},
                                            {24, 1, 1},
                                            {37, 33, 16},
                                            {61, 0, 5},
                                            {131, 129, 50},
                                            {67, 1031, 35},
                                            {700, 7, 48},
                                            {5, 5, 0}}) {
    const auto lda = depth + 3, ldb = std::max(depth, columns) + 2, ldc = columns + 5;
    const auto a = random_values<T>(rows * lda), b = random_values<T>(ldb * ldb, 2),
               before = random_values<T>(rows * ldc, 3);
    using Right = RightHandSide<T, P>;
    std::vector<typename Right::Packed> buffer(
        static_cast<size_t>(Right::packed_size(depth, columns)));
    for (const auto transposed : {Transposed::no, Transposed::yes})
      for (const bool add : {false, true}) {
        auto c = before;
        Right(transposed, b.data(), ldb, depth, columns, rows, buffer.data())
            .multiply(a.data(), lda, add, c.data(), ldc, rows);
        for (int64_t i = 0; i < rows; ++i)
          for (int64_t j = 0; j < ldc; ++j) {
            const auto at = static_cast<size_t>(i * ldc + j);
            double sum = add || j >= columns ? before[at] : 0;
            for (int64_t k = 0; j < columns && k < depth; ++k)
              sum += factor<P>(a[static_cast<size_t>(i * lda + k)]) *
                     factor<P>(b[static_cast<size_t>(transposed == Transposed::yes ? j * ldb + k
                                                                                   : k * ldb + j)]);
            ASSERT_NEAR(c[at], sum, tolerance * std::sqrt(static_cast<double>(depth + 1)))
                << rows << ' ' << depth << ' ' << columns << " at " << i << ' ' << j;
          }
      }
    // The same matrices as a gradient of weights: (depth, columns) += aᵀ y.
    const auto y = random_values<T>(rows * ldc, 4), start = random_values<T>(depth * ldc, 5);
    auto c = start;
    add_transposed_product<T, P>(a.data(), lda, y.data(), ldc, c.data(), ldc, depth, columns, rows);
    for (int64_t i = 0; i < depth; ++i)
      for (int64_t j = 0; j < ldc; ++j) {
        const auto at = static_cast<size_t>(i * ldc + j);
        double sum = start[at];
        for (int64_t k = 0; j < columns && k < rows; ++k)
          sum += factor<P>(a[static_cast<size_t>(k * lda + i)]) *
                 factor<P>(y[static_cast<size_t>(k * ldc + j)]);
        ASSERT_NEAR(c[at], sum, tolerance * std::sqrt(static_cast<double>(rows + 1)))
            << rows << ' ' << depth << ' ' << columns << " at " << i << ' ' << j;
      }
  }
}

TEST(Product, FollowsItsDefinition) {
  expect_products_follow_their_definition<float>(1e-5f);
  expect_products_follow_their_definition<double>(1e-13);
}

// Calls f() with each tile that this processor can run.
template <class F>
void on_bfloat16_tiles(F&& f) {
  for (auto tile = bfloat16_tiles(); *tile; ++tile) {
    SCOPED_TRACE((*tile)->instruction ? (*tile)->instruction : "portable");
    use_bfloat16_tile(**tile);
    f();
  }
  use_bfloat16_tile(*bfloat16_tiles()[0]);
}

TEST(Product, InBfloat16IsThatOfRoundedFactors) {
  on_bfloat16_tiles([] { expect_products_follow_their_definition<float, BFloat16>(1e-5f); });
}

// Multiplies by one, so that only the rounding is visible: ties, the last value before a power of
// two, the largest values, and NaN.
TEST(Product, Bfloat16IsToNearestTiesToEven) {
  const auto infinity = std::numeric_limits<float>::infinity();
  std::vector<float> x = {1.0f,      1.00390625f, 1.01171875f, 1.0039063f, -1.01171875f,
                          1.998047f, 3.3e38f,     -infinity,   1e-37f,     0.0f};
  for (const auto value : random_values<float>(990)) x.push_back(std::exp(8 * value));
  const auto rows = static_cast<int64_t>(x.size());
  on_bfloat16_tiles([&] {
    using Right = RightHandSide<float, BFloat16>;
    std::vector<Right::Packed> buffer(static_cast<size_t>(Right::packed_size(1, 1)));
    const float one = 1, not_a_number = std::nanf("");
    const Right right(Transposed::no, &one, 1, 1, 1, rows, buffer.data());
    std::vector<float> y(x.size());
    right.multiply(x.data(), 1, false, y.data(), 1, rows);
    EXPECT_EQ(y[1], 1.0f) << "a tie goes to the even neighbour below";
    EXPECT_EQ(y[2], 1.015625f) << "or above";
    for (size_t i = 0; i < x.size(); ++i)
      EXPECT_EQ(y[i], static_cast<float>(factor<BFloat16>(x[i]))) << x[i];
    right.multiply(&not_a_number, 1, false, y.data(), 1, 1);
    EXPECT_TRUE(std::isnan(y[0]));
  });
}

TEST(Optimizer, NormDoesNotDependOnTheNumberOfThreads) {
  const auto x = random_values<float>(100'003);
  const auto most = omp_get_max_threads();
  omp_set_num_threads(1);
  const auto one = sum_of_squares(x.data(), 100'003);
  omp_set_num_threads(3);
  const auto three = sum_of_squares(x.data(), 100'003);
  omp_set_num_threads(most);
  EXPECT_EQ(one, three);
  double expected = 0;
  for (const auto value : x) expected += static_cast<double>(value) * value;
  EXPECT_NEAR(one / expected, 1.0, 1e-12);
}

// Runs a kernel on one, two and three threads: the results agree to rounding. Runs it again on the
// same number of threads: the results agree bit for bit, which a race would break.
template <class F>
void expect_threads_make_no_difference(F&& run) {
  const auto most = omp_get_max_threads();
  omp_set_num_threads(1);
  const auto alone = run();
  for (const int threads : {2, 3}) {
    omp_set_num_threads(threads);
    const auto first = run();
    ASSERT_EQ(first.size(), alone.size());
    double scale = 0;
    for (const auto value : alone) scale = std::max(scale, std::abs(static_cast<double>(value)));
    for (size_t i = 0; i < alone.size(); ++i)
      ASSERT_NEAR(first[i], alone[i], 1e-5 * scale) << threads << " threads, value " << i;
    for (int again = 0; again < 20; ++again) ASSERT_EQ(run(), first) << threads << " threads";
  }
  omp_set_num_threads(most);
}

std::vector<float> joined(std::initializer_list<std::vector<float>> parts) {
  std::vector<float> all;
  for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

template <class P>
void expect_attention_does_not_depend_on_threads(bool causal) {
  const AttentionShape s{.batch = 3, .length = 37, .heads = 2, .head_width = 9, .causal = causal};
  const auto qkv = random_values<float>(3 * 37 * 54), dout = random_values<float>(3 * 37 * 18, 2);
  expect_threads_make_no_difference([&] {
    std::vector<float> out(dout.size()), log_sum(3 * 2 * 37), dqkv(qkv.size());
    attention_forward<float, P>(qkv.data(), out.data(), log_sum.data(), s);
    attention_backward<float, P>(qkv.data(), out.data(), log_sum.data(), dout.data(), dqkv.data(),
                                 s);
    return joined({out, dqkv});
  });
}

TEST(Threads, AttentionDoesNotDependOnThem) {
  for (const bool causal : {true, false}) {
    expect_attention_does_not_depend_on_threads<float>(causal);
    expect_attention_does_not_depend_on_threads<BFloat16>(causal);
  }
}

TEST(Threads, TurnedHeadsDoNotDependOnThem) {
  const HeadsShape s{.batch = 7, .length = 97, .heads = 3, .head_width = 10};
  const auto qkv = random_values<float>(7 * 97 * 90), cosine = random_values<float>(97 * 5, 2),
             sine = random_values<float>(97 * 5, 3);
  expect_threads_make_no_difference([&] {
    std::vector<float> out(qkv.size());
    turn_heads(qkv.data(), cosine.data(), sine.data(), out.data(), s, Turn::forth);
    return out;
  });
}

template <class P>
void expect_perceptron_does_not_depend_on_threads() {
  const PerceptronShape s{.rows = 257, .in = 7, .hidden = 33, .out = 5};
  const auto x = random_values<float>(257 * 7), w1 = random_values<float>(33 * 7, 2),
             w2 = random_values<float>(5 * 33, 3), dy = random_values<float>(257 * 5, 4);
  expect_threads_make_no_difference([&] {
    std::vector<float> hidden(257 * 33), y(257 * 5), dx(x.size()), dw1(w1.size()), dw2(w2.size());
    perceptron_forward<float, P>(x.data(), w1.data(), w2.data(), hidden.data(), y.data(), s);
    perceptron_backward<float, P>(x.data(), w1.data(), w2.data(), hidden.data(), dy.data(),
                                  dx.data(), dw1.data(), dw2.data(), s);
    return joined({y, dx, dw1, dw2});
  });
}

TEST(Threads, PerceptronDoesNotDependOnThem) {
  expect_perceptron_does_not_depend_on_threads<float>();
  expect_perceptron_does_not_depend_on_threads<BFloat16>();
}

TEST(Threads, StreamsDoNotDependOnThem) {
  const StreamShape s{.tokens = 6 * 43, .n = 4, .d = 9};
  const auto x = random_values<float>(s.tokens * 36), m = random_values<float>(6 * 16, 2),
             weight = random_values<float>(36, 3), dg = random_values<float>(s.tokens * 36, 4),
             dh = random_values<float>(s.tokens * 36, 5);
  const Norm<float> norm{.weight = weight.data()};
  expect_threads_make_no_difference([&] {
    std::vector<float> g(x.size()), h(x.size()), dx(x.size()), dm(m.size()), dweight(36);
    std::vector<RowStatistics<float>> statistics(static_cast<size_t>(s.tokens));
    mix_norm_forward(m.data(), x.data(), norm, g.data(), h.data(), statistics.data(), 6, s);
    mix_norm_backward<float>(m.data(), x.data(), norm, statistics.data(), dg.data(), dh.data(),
                             dx.data(), dm.data(), dweight.data(), nullptr, 6, s);
    return joined({g, h, dx, dm, dweight});
  });
}

// A row whose mean is a thousand times its spread keeps its digits.
TEST(Norm, LargeOffsetsCostNoDigits) {
  auto x = random_values<float>(257);
  for (auto& value : x) value += 1024.0f;
  std::vector<float> y(257);
  norm_forward<float>(x.data(), {}, y.data(), nullptr, 1, 257);
  double mean = 0, variance = 0;
  for (const auto value : x) mean += value / 257.0;
  for (const auto value : x) variance += (value - mean) * (value - mean) / 257.0;
  for (size_t i = 0; i < x.size(); ++i)
    EXPECT_NEAR(y[i], (x[i] - mean) / std::sqrt(variance + 1e-5), 2e-4);
}

// Checks the first and the last positions of a long sequence: no row of weights is left out or
// counted twice.
TEST(Attention, ConstantValuesComeBack) {
  const AttentionShape s{.batch = 1, .length = 257, .heads = 1, .head_width = 8};
  auto qkv = random_values<double>(257 * 24);
  for (int64_t t = 0; t < 257; ++t)
    for (int64_t i = 16; i < 24; ++i) qkv[static_cast<size_t>(t * 24 + i)] = 3.0;
  std::vector<double> out(257 * 8);
  attention_forward<double>(qkv.data(), out.data(), nullptr, s);
  for (const auto value : out) EXPECT_NEAR(value, 3.0, 1e-14);
}

// Attention of one head by its definition, in double, with the factors of each product rounded.
struct RoundedAttention {
  std::vector<double> out, dqkv;
};

RoundedAttention rounded_attention(const std::vector<float>& qkv, const std::vector<float>& dout,
                                   int64_t length, int64_t width, bool causal) {
  const auto r = [](double x) { return factor<BFloat16>(static_cast<float>(x)); };
  const auto scale = 1 / std::sqrt(static_cast<double>(width));
  const auto at = [&](int64_t part, int64_t t, int64_t k) {
    return static_cast<size_t>((3 * t + part) * width + k);
  };
  const auto in_out = [&](int64_t t, int64_t k) { return static_cast<size_t>(t * width + k); };
  RoundedAttention result{std::vector<double>(dout.size()), std::vector<double>(qkv.size())};
  for (int64_t t = 0; t < length; ++t) {
    const auto seen = causal ? t + 1 : length;
    std::vector<double> p(static_cast<size_t>(seen)), dp(p.size());
    double largest = -1e300, sum = 0, along = 0;
    for (int64_t i = 0; i < seen; ++i) {
      auto &score = p[static_cast<size_t>(i)], &d = dp[static_cast<size_t>(i)];
      for (int64_t k = 0; k < width; ++k) {
        score += r(qkv[at(0, t, k)]) * r(qkv[at(1, i, k)]) * scale;
        d += r(dout[in_out(t, k)]) * r(qkv[at(2, i, k)]);
      }
      largest = std::max(largest, score);
    }
    for (auto& score : p) sum += score = std::exp(score - largest);
    for (int64_t k = 0; k < width; ++k) {
      auto& value = result.out[in_out(t, k)];
      for (int64_t i = 0; i < seen; ++i)
        value += r(p[static_cast<size_t>(i)]) * r(qkv[at(2, i, k)]) / sum;
      along += dout[in_out(t, k)] * value;
    }
    for (int64_t i = 0; i < seen; ++i) {
      const auto weight = p[static_cast<size_t>(i)] / sum,
                 ds = weight * (dp[static_cast<size_t>(i)] - along) * scale;
      for (int64_t k = 0; k < width; ++k) {
        result.dqkv[at(0, t, k)] += r(ds) * r(qkv[at(1, i, k)]);
        result.dqkv[at(1, i, k)] += r(ds) * r(qkv[at(0, t, k)]);
        result.dqkv[at(2, i, k)] += r(weight) * r(dout[in_out(t, k)]);
      }
    }
  }
  return result;
}

// A weight at a tie may be rounded to the other side, which moves the rows it reaches by a unit of
// bfloat16: few rows may differ by so much, all others agree.
void expect_equal_rows(const std::vector<float>& is, const std::vector<double>& wanted,
                       int64_t width) {
  const auto rows = static_cast<int64_t>(is.size()) / width;
  double size = 0;
  for (const auto value : wanted) size += value * value;
  size = std::sqrt(size / static_cast<double>(rows)) + 1e-15;  // of a usual row
  int64_t moved = 0;
  for (int64_t row = 0; row < rows; ++row) {
    double difference = 0;
    for (auto i = static_cast<size_t>(row * width); i < static_cast<size_t>((row + 1) * width); ++i)
      difference += (is[i] - wanted[i]) * (is[i] - wanted[i]);
    difference = std::sqrt(difference) / size;
    EXPECT_LT(difference, 1.0 / 128) << "row " << row;
    if (difference > 1e-4) ++moved;
  }
  EXPECT_LE(moved, 3 + rows / 50) << "of " << rows << " rows";
}

TEST(Attention, InBfloat16IsThatOfRoundedFactors) {
  on_bfloat16_tiles([] {
    for (const auto& [length, causal] : {std::pair{1, true},
                                         {3, true},
                                         {17, true},
                                         {129, true},
                                         {3, false},
                                         {17, false},
                                         {129, false}})
      for (const int64_t width : {1, 9, 32}) {
        const AttentionShape s{
            .batch = 1, .length = length, .heads = 1, .head_width = width, .causal = causal};
        const auto qkv = random_values<float>(3 * length * width),
                   dout = random_values<float>(length * width, 2);
        std::vector<float> out(dout.size()), log_sum(static_cast<size_t>(length)), dqkv(qkv.size());
        attention_forward<float, BFloat16>(qkv.data(), out.data(), log_sum.data(), s);
        attention_backward<float, BFloat16>(qkv.data(), out.data(), log_sum.data(), dout.data(),
                                            dqkv.data(), s);
        const auto wanted = rounded_attention(qkv, dout, length, width, causal);
        SCOPED_TRACE(std::to_string(length) + " " + std::to_string(width) +
                     (causal ? "" : " full"));
        expect_equal_rows(out, wanted.out, width);
        expect_equal_rows(dqkv, wanted.dqkv, width);
      }
  });
}

}  // namespace
}  // namespace geores::kernels
