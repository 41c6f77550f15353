#ifdef GEORES_EMULATED_KERNELS
#include <gtest/gtest.h>

#include <bit>

#include "geores/kernels/dense/linear.h"
#include "geores/kernels/emulated_check_test.h"

namespace geores::kernels {
namespace {

double value_of(double x) { return x; }
double value_of(BFloat16 x) { return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16); }
void assign(double x, float& to) { to = static_cast<float>(x); }
void assign(double x, double& to) { to = x; }
void assign(double x, BFloat16& to) {
  to.bits = static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(x)) >> 16);
}

template <class A>
std::vector<A> drawn_activations(int64_t size) {
  const auto drawn_values = drawn<double>(size);
  std::vector<A> values(drawn_values.size());
  for (size_t i = 0; i < values.size(); ++i) assign(4 * drawn_values[i], values[i]);
  return values;
}

template <class A>
void compare_gelu(int64_t size, double limit) {
  const auto x = drawn_activations<A>(size), dy = drawn_activations<A>(size);
  std::vector<A> y(x.size()), dx = dy;
  const double least = sizeof(A) == 8 ? 1e-12 : 2e-6;  // the polynomials' error far from 0
  gelu_forward(kStream, x.data(), y.data(), size);
  gelu_backward(kStream, x.data(), static_cast<const A*>(dx.data()), dx.data(), size);  // in place
  for (size_t i = 0; i < x.size(); ++i) {
    const auto in = value_of(x[i]), below = 0.5 * std::erfc(-in / std::sqrt(2.0)),
               density = std::exp(-in * in / 2) / std::sqrt(2 * M_PI);
    EXPECT_NEAR(value_of(y[i]), in * below, limit * std::abs(in * below) + least) << in;
    const auto slope = value_of(dy[i]) * (below + in * density);
    EXPECT_NEAR(value_of(dx[i]), slope,
                limit * std::abs(slope) + least * (1 + std::abs(value_of(dy[i]))))
        << in;
  }
}

// Also where the last block has less to do than the others.
TEST(EmulatedGelu, EqualsItsDefinition) {
  for (const int64_t size : {1, 4, 6, 8, 4104, 8200}) {
    compare_gelu<BFloat16>(size, 4e-3);
    compare_gelu<float>(size, 2e-4);
  }
  compare_gelu<double>(2052, 1e-12);
}

}  // namespace
}  // namespace geores::kernels
#endif
