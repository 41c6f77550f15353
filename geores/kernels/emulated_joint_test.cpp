// EΔ-Stream's operator of a sequence on the GPU, emulated: from the tokens to G x and back.
#ifdef GEORES_EMULATED_KERNELS
#include <gtest/gtest.h>

#include "geores/kernels/emulated_check_test.h"
#include "geores/kernels/pooled/joint_generators.h"
#include "geores/kernels/pooled/operators.h"
#include "geores/kernels/pooled/summary.h"
#include "geores/kernels/streams/sequence_mix.h"

namespace geores::kernels {
namespace {

using Doubles = Values<double>;
using Inputs =
    std::vector<Doubles>;  // x, hidden, hidden_bias, output, output_bias, norm weight, bias

constexpr double kPenaltyWeight = 0.3;

struct JointRun {
  int64_t sequences, length, n, d;
  int hidden;

  GeneratorShape shape() const {
    return joint_shape(static_cast<int>(sequences), static_cast<int>(length),
                       static_cast<int>(n * d), hidden, static_cast<int>(n));
  }
  StreamShape streams() const { return {sequences * length, n, d}; }

  Inputs inputs() const {
    const auto in = n * d, outputs = 3 * n + 2;
    return {drawn<double>(sequences * length * in),
            drawn<double>(hidden * in),
            drawn<double>(hidden),
            drawn<double>(outputs * hidden),
            drawn<double>(outputs),
            drawn<double>(in),
            drawn<double>(in)};
  }

  static JointGenerators<const double> parameters(const Inputs& i) {
    return {{i[1].data(), i[2].data(), i[3].data(), i[4].data()}, i[5].data(), i[6].data()};
  }

  struct Results {
    Doubles mixed, penalty, g;
    Inputs gradients;
  };
  Results run(const Inputs& i, const Doubles& dmixed, const Doubles& dpenalty) const {
    const auto in = n * d;
    const auto s = shape();
    auto sums = zeros<double>(sequences * kSummaryParts * in),
         input = zeros<double>(sequences * in), normal = input, dmean = input,
         inverse = zeros<double>(sequences), penalty = inverse,
         hiddens = zeros<double>(sequences * hidden), dhidden = hiddens,
         raw = zeros<double>(sequences * (3 * n + 2)), draw = raw,
         g = zeros<double>(sequences * n * n), mixed = zeros<double>(sequences * length * in),
         dx = mixed, dg = Doubles(static_cast<size_t>(sequences * kMixParts * n * n), NAN);
    const JointState<double> state{input.data(), normal.data(), inverse.data(), hiddens.data(),
                                   raw.data()};
    summary_forward<double, double>(kStream, i[0].data(), nullptr, nullptr, sums.data(), nullptr,
                                    sequences, streams());
    joint_generators_forward<double>(kStream, parameters(i), sums.data(), state, g.data(),
                                     penalty.data(), kPenaltyWeight, static_cast<int>(n), s);
    sequence_mix_forward<double>(kStream, g.data(), i[0].data(), mixed.data(), sequences,
                                 streams());
    auto gradients = i;
    for (auto& gradient : gradients) std::fill(gradient.begin(), gradient.end(), 0);
    const JointState<const double> kept{input.data(), normal.data(), inverse.data(), hiddens.data(),
                                        raw.data()};
    sequence_mix_sums<double>(kStream, dmixed.data(), i[0].data(), dg.data(), sequences, streams());
    joint_generators_backward<double>(
        kStream, parameters(i), kept,
        {dg.data(), dpenalty.data(), kMixParts, 1, kPenaltyWeight, dhidden.data(), draw.data(),
         dmean.data()},
        {{gradients[1].data(), gradients[2].data(), gradients[3].data(), gradients[4].data()},
         gradients[5].data(),
         gradients[6].data()},
        static_cast<int>(n), s);
    sequence_mix_backward<double>(kStream, g.data(), dmixed.data(), dmean.data(), dx.data(),
                                  sequences, streams());
    gradients[0] = dx;
    return {mixed, penalty, g, gradients};
  }

  // The operators by their definition.
  Doubles operators(const Inputs& i) const {
    const auto in = static_cast<size_t>(n * d), units = static_cast<size_t>(hidden),
               outputs = static_cast<size_t>(3 * n + 2), count = static_cast<size_t>(n);
    Doubles u, v, k, beta, gamma, g = zeros<double>(sequences * n * n);
    for (int64_t b = 0; b < sequences; ++b) {
      Doubles a(in, 0), made(outputs, 0);
      for (int64_t t = 0; t < length; ++t)
        for (size_t c = 0; c < in; ++c)
          a[c] += i[0][static_cast<size_t>(b * length + t) * in + c] / double(length);
      double mean = 0, squares = 0;
      for (const auto value : a) mean += value / double(in);
      for (const auto value : a) squares += std::pow(value - mean, 2) / double(in);
      for (size_t c = 0; c < in; ++c)
        a[c] = (a[c] - mean) / std::sqrt(squares + 1e-5) * i[5][c] + i[6][c];
      for (size_t o = 0; o < outputs; ++o) made[o] = i[4][o];
      for (size_t h = 0; h < units; ++h) {
        double sum = i[2][h];
        for (size_t c = 0; c < in; ++c) sum += i[1][h * in + c] * a[c];
        sum *= 0.5 * (1 + std::erf(sum / std::sqrt(2.0)));
        for (size_t o = 0; o < outputs; ++o) made[o] += i[3][o * units + h] * sum;
      }
      double length_k = 0;
      for (size_t j = 0; j < count; ++j) length_k += std::pow(made[2 * count + 1 + j], 2);
      for (size_t j = 0; j < count; ++j) {
        u.push_back(made[j]), v.push_back(made[count + j]);
        k.push_back(made[2 * count + 1 + j] / std::sqrt(length_k));
      }
      beta.push_back(std::log1p(std::exp(made[2 * count])));
      gamma.push_back(1 / (1 + std::exp(-made[outputs - 1])));
    }
    hybrid_operators_forward<double>({u.data(), v.data(), k.data(), beta.data(), gamma.data()},
                                     g.data(), sequences, n);
    return g;
  }
};

// Widths of four values at once and of single ones, more tokens than a block has groups, and fewer.
TEST(Emulated, JointGeneratorsMixAsTheirDefinition) {
  for (const auto& r : {JointRun{2, 70, 4, 8, 5}, JointRun{3, 5, 2, 3, 33}}) {
    const auto what = "length " + std::to_string(r.length);
    const auto inputs = r.inputs();
    const auto dmixed = drawn<double>(r.sequences * r.length * r.n * r.d),
               dpenalty = drawn<double>(r.sequences);
    const auto is = r.run(inputs, dmixed, dpenalty);
    expect_close(is.g, r.operators(inputs), what + " g");
    auto wanted = is.mixed;
    const auto n = static_cast<size_t>(r.n), d = static_cast<size_t>(r.d);
    for (size_t t = 0; t < wanted.size() / (n * d); ++t)
      for (size_t row = 0; row < n; ++row)
        for (size_t c = 0; c < d; ++c) {
          double sum = 0;
          for (size_t j = 0; j < n; ++j)
            sum += is.g[(t / static_cast<size_t>(r.length) * n + row) * n + j] *
                   inputs[0][(t * n + j) * d + c];
          wanted[(t * n + row) * d + c] = sum;
        }
    expect_close(is.mixed, wanted, what + " mixed");
    expect_slope(
        inputs, is.gradients,
        [&](const Inputs& i) {
          const auto at = r.run(i, dmixed, dpenalty);
          return inner(at.mixed, dmixed) + inner(at.penalty, dpenalty);
        },
        what);
  }
}

}  // namespace
}  // namespace geores::kernels
#endif
