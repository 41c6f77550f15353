// The GPU's kernels of JPmHC's softmax routes and of the norm behind a write, emulated, against their
// definitions in double; gradients against central differences.
#ifdef GEORES_EMULATED_KERNELS
#include <gtest/gtest.h>

#include "geores/kernels/emulated_check_test.h"
#include "geores/kernels/mixers/mixer_lines.h"
#include "geores/kernels/norms/post_norm.h"
#include "geores/kernels/routed/routed_streams.h"
#include "geores/kernels/routed/softmax_routes.h"
#include "geores/kernels/routed/wide_post_norm.h"
#include "geores/manifold/cayley_general.h"
#include "geores/manifold/cayley_iterative.h"

namespace geores::kernels {
namespace {

constexpr double kNormEps = 0.1;

// Inputs: x, the generator's weight and bias, the norm's weight and bias. Outputs: res, read, write.
using Arrays = std::vector<Values<double>>;

SoftmaxGenerator<const double> generator_in(const Arrays& in, const SoftmaxShape& s) {
  return {in[1].data(), in[2].data(), s.layer ? in[3].data() : nullptr,
          s.layer ? in[4].data() : nullptr};
}

struct SoftmaxPass {
  Values<double> packed, bias, plain, inverse;
  Arrays out;
};

SoftmaxPass softmax_pass(const Arrays& in, const SoftmaxShape& s,
                         const SoftmaxRouting<double>& routing) {
  SoftmaxPass pass{zeros<double>(s.count() * s.width),
                   zeros<double>(s.differences()),
                   zeros<double>(s.rows * s.count()),
                   zeros<double>(s.rows),
                   {zeros<double>(s.rows * s.n * s.n), zeros<double>(s.rows * s.n),
                    zeros<double>(s.rows * s.n)}};
  pack_differences(kStream, generator_in(in, s), pass.packed.data(), pass.bias.data(), s);
  auto partial =
      Values<double>(static_cast<size_t>(wide_projection_values<double>(s.projection())), NAN);
  wide_projection_sums(kStream, in[0].data(), pass.packed.data(), partial.data(), s.projection());
  softmax_routes_forward<double>(
      kStream,
      {partial.data(), pass.bias.data(), kNormEps, pass.plain.data(), pass.inverse.data(),
       pass.out[0].data(), pass.out[1].data(), pass.out[2].data()},
      routing, s);
  return pass;
}

// By the definition: all outputs of the generator, then softmaxes and Cayley's map.
template <int N>
Arrays defined_routes(const Arrays& in, const SoftmaxShape& s,
                      const SoftmaxRouting<double>& routing) {
  Arrays out = {zeros<double>(s.rows * N * N), zeros<double>(s.rows * N),
                zeros<double>(s.rows * N)};
  const auto width = static_cast<size_t>(s.width);
  for (size_t row = 0; row < static_cast<size_t>(s.rows); ++row) {
    const double* x = in[0].data() + row * width;
    double mean = 0, squares = 0;
    for (size_t c = 0; c < width; ++c) mean += x[c] / double(width);
    if (!s.layer) mean = 0;
    for (size_t c = 0; c < width; ++c) squares += (x[c] - mean) * (x[c] - mean) / double(width);
    const auto raw = [&](size_t r) {
      double sum = in[2][r];
      for (size_t c = 0; c < width; ++c) {
        const double z = (x[c] - mean) / std::sqrt(squares + kNormEps);
        sum += in[1][r * width + c] * (s.layer ? z * in[3][c] + in[4][c] : z);
      }
      return sum;
    };
    manifold::Matrix<double, N> h[3] = {};
    for (int part = 0; part < (s.mixes ? 3 : 2); ++part)
      for (int i = 0; i < N; ++i)
        for (int j = 0; j < N; ++j)
          h[part](i, j) = raw(static_cast<size_t>((part * N + i) * N + j));
    const auto pre = softmax<true>(h[0], routing.temperature),
               post = softmax<false>(h[1], routing.temperature);
    const auto res =
        routing.steps >= 0
            ? manifold::iterative_cayley(h[2], routing.alpha, routing.steps)
            : manifold::cayley_transform((-0.5 * routing.alpha) * (h[2] - transpose(h[2])));
    for (int i = 0; i < N; ++i) {
      const auto at = row * N + static_cast<size_t>(i);
      out[1][at] = sum_over<false>(pre, i) / N;
      out[2][at] = sum_over<true>(post, i);
      if (s.mixes)
        for (int j = 0; j < N; ++j) out[0][at * N + static_cast<size_t>(j)] = res(i, j);
    }
  }
  return out;
}

template <int N>
void compare_softmax_routes(const SoftmaxShape& s, const SoftmaxRouting<double>& routing) {
  const auto what = "n " + std::to_string(N) + " width " + std::to_string(s.width) + " layer " +
                    std::to_string(s.layer) + " mixes " + std::to_string(s.mixes);
  Arrays in = {drawn<double>(s.rows * s.width), drawn<double>(s.outputs() * s.width),
               drawn<double>(s.outputs()), drawn<double>(s.width), drawn<double>(s.width)};
  for (auto& value : in[0]) value += 0.5;  // a mean that counts
  for (auto& value : in[1]) value /= std::sqrt(double(s.width));
  const auto pass = softmax_pass(in, s, routing);
  const auto wanted = defined_routes<N>(in, s, routing);
  for (size_t i = s.mixes ? 0 : 1; i < 3; ++i)
    expect_close(pass.out[i], wanted[i], what + " route " + std::to_string(i));

  const Arrays d = {drawn<double>(s.rows * N * N), drawn<double>(s.rows * N),
                    drawn<double>(s.rows * N)};
  auto factors = Values<double>(static_cast<size_t>(s.rows * (s.count() + 1)), NAN);
  auto dbias = zeros<double>(s.differences()), dpacked = zeros<double>(s.count() * s.width);
  softmax_routes_backward<double>(
      kStream,
      {pass.plain.data(), pass.inverse.data(), pass.bias.data(), d[0].data(), d[1].data(),
       d[2].data(), factors.data(), dbias.data()},
      routing, s);
  Arrays gradients = {Values<double>(in[0].size(), NAN), zeros<double>(s.outputs() * s.width),
                      zeros<double>(s.outputs()), zeros<double>(s.width), zeros<double>(s.width)};
  wide_projection_from_factors<double>(kStream,
                                       {.x = in[0].data(),
                                        .w = pass.packed.data(),
                                        .plain = nullptr,
                                        .inverse = nullptr,
                                        .draw = nullptr,
                                        .skip = nullptr,
                                        .factors = factors.data(),
                                        .dx = gradients[0].data(),
                                        .dw = dpacked.data(),
                                        .dbias = nullptr},
                                       s.projection());
  unpack_difference_gradients<double>(
      kStream, generator_in(in, s), dpacked.data(), dbias.data(),
      {gradients[1].data(), gradients[2].data(), s.layer ? gradients[3].data() : nullptr,
       s.layer ? gradients[4].data() : nullptr},
      s);
  expect_slope(
      in, gradients,
      [&](const Arrays& at) {
        const auto out = defined_routes<N>(at, s, routing);
        return (s.mixes ? inner(out[0], d[0]) : 0) + inner(out[1], d[1]) + inner(out[2], d[2]);
      },
      what);
}

// In the order of the CPU's kernel.
TEST(EmulatedSoftmax, DifferencesAreThoseOfTheOtherKernels) {
  for (const int n : {2, 3, 4}) {
    const auto wanted = route_differences(n);
    ASSERT_EQ(static_cast<int64_t>(wanted.size()),
              (SoftmaxShape{1, 1, n, true, true}.differences()));
    for (size_t r = 0; r < wanted.size(); ++r) {
      const auto is = difference_of(static_cast<int>(r), n);
      EXPECT_EQ(is.at, wanted[r].at);
      EXPECT_EQ(is.minus, wanted[r].minus);
    }
  }
}

TEST(EmulatedSoftmax, RoutesAndAllTheirGradientsAreThoseOfTheirDefinition) {
  compare_softmax_routes<4>({67, 24, 4, true, true}, {1.0, 0.1, 2});
  compare_softmax_routes<4>({5, 300, 4, true, true}, {0.7, 0.3, -1});
  compare_softmax_routes<4>({3, 40, 4, false, true}, {1.0, 0.1, 0});
  compare_softmax_routes<4>({3, 9, 4, true, false}, {1.3, 0.1, 2});
  compare_softmax_routes<3>({70, 10, 3, false, true}, {1.0, 0.5, -1});
  compare_softmax_routes<2>({4, 14, 2, true, true}, {1.0, 0.2, 3});
}

// Floats, several slices of the columns, and more rows than a block has.
TEST(EmulatedSoftmax, FloatsHaveTheRoutesOfDoubles) {
  const SoftmaxShape s{66, 1160, 4, true, true};
  const SoftmaxRouting<double> routing{1.0, 0.1, 2};
  Arrays in = {drawn<double>(s.rows * s.width), drawn<double>(s.outputs() * s.width),
               drawn<double>(s.outputs()), drawn<double>(s.width), drawn<double>(s.width)};
  for (auto& value : in[1]) value *= 0.02;
  const auto wanted = softmax_pass(in, s, routing).out;
  std::vector<Values<float>> f;
  for (const auto& values : in) f.emplace_back(values.begin(), values.end());
  auto packed = zeros<float>(s.count() * s.width), bias = zeros<float>(s.differences()),
       partial = zeros<float>(wide_projection_values<float>(s.projection())),
       res = zeros<float>(s.rows * 16), read = zeros<float>(s.rows * 4), write = read;
  pack_differences<float>(kStream, {f[1].data(), f[2].data(), f[3].data(), f[4].data()},
                          packed.data(), bias.data(), s);
  wide_projection_sums(kStream, f[0].data(), packed.data(), partial.data(), s.projection());
  softmax_routes_forward<float>(kStream,
                                {partial.data(), bias.data(), float(kNormEps), nullptr, nullptr,
                                 res.data(), read.data(), write.data()},
                                {1.f, 0.1f, 2}, s);
  const auto typed = [](const Values<double>& v) { return Values<float>(v.begin(), v.end()); };
  expect_close(res, typed(wanted[0]), "res");
  expect_close(read, typed(wanted[1]), "read");
  expect_close(write, typed(wanted[2]), "write");
}

// Inputs: res, x, write, y.
Values<double> defined_write_norm(const Arrays& in, const StreamShape& s) {
  const auto n = static_cast<size_t>(s.n), d = static_cast<size_t>(s.d);
  auto out = zeros<double>(s.tokens * s.n * s.d);
  for (size_t t = 0; t < static_cast<size_t>(s.tokens); ++t) {
    double squares = 0;
    for (size_t i = 0; i < n; ++i)
      for (size_t c = 0; c < d; ++c) {
        double sum = in[2][t * n + i] * in[3][t * d + c];
        for (size_t j = 0; j < n; ++j)
          sum += in[0][(t * n + i) * n + j] * in[1][(t * n + j) * d + c];
        out[(t * n + i) * d + c] = sum;
        squares += sum * sum;
      }
    for (size_t i = 0; i < n * d; ++i)
      out[t * n * d + i] /= std::sqrt(squares / double(n * d) + kNormEps);
  }
  return out;
}

void compare_write_norm(const StreamShape& s) {
  const auto what = "n " + std::to_string(s.n) + " d " + std::to_string(s.d);
  const auto n = static_cast<size_t>(s.n), d = static_cast<size_t>(s.d);
  const Arrays in = {drawn<double>(s.tokens * s.n * s.n), drawn<double>(s.tokens * s.n * s.d),
                     drawn<double>(s.tokens * s.n), drawn<double>(s.tokens * s.d)};
  auto out = zeros<double>(s.tokens * s.n * s.d), inverse = zeros<double>(s.tokens);
  const auto added = drawn<double>(s.tokens * s.n * s.d);
  auto sum = out, sum_alone = out;
  WideWriteNormForward<double, double> p{in[0].data(), in[1].data(), in[2].data(),
                                         in[3].data(), kNormEps,     added.data(),
                                         out.data(),   sum.data(),   inverse.data()};
  wide_write_norm_forward(kStream, p, s);
  const auto normal = defined_write_norm(in, s);
  auto wanted_sum = normal;
  for (size_t i = 0; i < wanted_sum.size(); ++i) wanted_sum[i] += added[i];
  expect_close(out, normal, what);
  expect_close(sum, wanted_sum, what + " sum");
  p.out = p.inverse = nullptr, p.sum = sum_alone.data();
  wide_write_norm_forward(kStream, p, s);
  EXPECT_EQ(sum_alone, sum) << what;

  const auto dout = drawn<double>(s.tokens * s.n * s.d);
  auto dv = zeros<double>(s.tokens * s.n * s.d);
  Arrays gradients = {zeros<double>(s.tokens * s.n * s.n), dv, zeros<double>(s.tokens * s.n),
                      zeros<double>(s.tokens * s.d)};
  wide_write_norm_backward<double, double>(
      kStream,
      {in[2].data(), in[3].data(), out.data(), inverse.data(), dout.data(), dv.data(),
       gradients[2].data(), gradients[3].data()},
      s);
  // Those of res and x follow from dv as wide_read_backward takes them.
  for (size_t t = 0; t < static_cast<size_t>(s.tokens); ++t)
    for (size_t i = 0; i < n; ++i)
      for (size_t j = 0; j < n; ++j)
        for (size_t c = 0; c < d; ++c) {
          const auto at = (t * n + i) * d + c, from = (t * n + j) * d + c;
          gradients[0][(t * n + i) * n + j] += dv[at] * in[1][from];
          gradients[1][from] += dv[at] * in[0][(t * n + i) * n + j];
        }
  expect_slope(
      in, gradients, [&](const Arrays& at) { return inner(defined_write_norm(at, s), dout); },
      what);

  std::vector<Values<float>> f;
  for (const auto& values : in) f.emplace_back(values.begin(), values.end());
  const Values<float> fdout(dout.begin(), dout.end());
  auto fout = zeros<float>(s.tokens * s.n * s.d), finverse = zeros<float>(s.tokens), fdv = fout,
       fdwrite = zeros<float>(s.tokens * s.n), fdy = zeros<float>(s.tokens * s.d);
  wide_write_norm_forward<float, float>(
      kStream,
      {f[0].data(), f[1].data(), f[2].data(), f[3].data(), float(kNormEps), nullptr, fout.data(),
       nullptr, finverse.data()},
      s);
  wide_write_norm_backward<float, float>(kStream,
                                         {f[2].data(), f[3].data(), fout.data(), finverse.data(),
                                          fdout.data(), fdv.data(), fdwrite.data(), fdy.data()},
                                         s);
  const auto typed = [](const Values<double>& v) { return Values<float>(v.begin(), v.end()); };
  expect_close(fout, typed(out), what + " out");
  expect_close(fdv, typed(dv), what + " dv");
  expect_close(fdwrite, typed(gradients[2]), what + " dwrite");
  expect_close(fdy, typed(gradients[3]), what + " dy");
}

// Tokens that wait in shared memory between two walks, and small ones that do not.
TEST(EmulatedSoftmax, TheNormBehindAWriteHasItsGradients) {
  for (const auto& s : {StreamShape{9, 4, 12}, StreamShape{3, 2, 7}, StreamShape{5, 3, 140},
                        StreamShape{6, 4, 400}, StreamShape{2, 8, 36}})
    compare_write_norm(s);
}

// Inputs: x, branch, what is added.
TEST(EmulatedSoftmax, APostNormAndItsSumHaveTheirGradients) {
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{3, 5}, {9, 128}, {2, 700}}) {
    const auto size = rows * columns, width = columns;
    const Arrays in = {drawn<double>(size), drawn<double>(size), drawn<double>(size)};
    const auto defined = [&, count = rows](const Arrays& at) {
      Arrays out = {zeros<double>(size), zeros<double>(size)};
      for (size_t row = 0; row < static_cast<size_t>(count); ++row) {
        const auto w = static_cast<size_t>(width);
        double squares = 0;
        for (size_t i = row * w; i < (row + 1) * w; ++i)
          squares += (at[0][i] + at[1][i]) * (at[0][i] + at[1][i]) / double(w);
        for (size_t i = row * w; i < (row + 1) * w; ++i) {
          out[0][i] = (at[0][i] + at[1][i]) / std::sqrt(squares + kNormEps);
          out[1][i] = out[0][i] + at[2][i];
        }
      }
      return out;
    };
    auto y = zeros<double>(size), sum = y, product = y, alone = y, inverse = zeros<double>(rows);
    PostNormForward<double, double> p{in[0].data(), in[1].data(), in[2].data(),   kNormEps,
                                      y.data(),     sum.data(),   product.data(), inverse.data()};
    post_norm_forward(kStream, p, rows, width);
    const auto wanted = defined(in);
    expect_close(y, wanted[0], "state");
    expect_close(sum, wanted[1], "sum");
    EXPECT_EQ(product, sum);
    p.y = p.sum = p.inverse = nullptr, p.product = alone.data();
    post_norm_forward(kStream, p, rows, width);
    EXPECT_EQ(alone, sum);
    const auto dy = drawn<double>(size), dsum = drawn<double>(size), dproduct = drawn<double>(size);
    Arrays gradients = {Values<double>(y.size(), NAN), Values<double>(y.size(), NAN),
                        Values<double>(y.size(), NAN)};
    post_norm_backward<double, double, double>(
        kStream,
        {y.data(), inverse.data(), dy.data(), dsum.data(), dproduct.data(), gradients[0].data(),
         gradients[1].data(), gradients[2].data()},
        rows, width);
    expect_slope(
        in, gradients,
        [&](const Arrays& at) {
          const auto out = defined(at);
          return inner(out[0], dy) + inner(out[1], dsum) + inner(out[1], dproduct);
        },
        "post norm");
  }
}

// Inputs: m, x.
TEST(EmulatedSoftmax, MixedStreamsHaveTheirGradients) {
  for (const auto& s : {StreamShape{5, 4, 12}, StreamShape{3, 2, 7}, StreamShape{2, 8, 130}}) {
    const auto n = static_cast<size_t>(s.n), d = static_cast<size_t>(s.d);
    const Arrays in = {drawn<double>(s.tokens * s.n * s.n), drawn<double>(s.tokens * s.n * s.d)};
    const auto mixed = [&](const Arrays& at) {
      auto out = zeros<double>(s.tokens * s.n * s.d);
      for (size_t i = 0; i < static_cast<size_t>(s.tokens) * n; ++i)
        for (size_t j = 0; j < n; ++j)
          for (size_t c = 0; c < d; ++c)
            out[i * d + c] += at[0][i * n + j] * at[1][(i / n * n + j) * d + c];
      return out;
    };
    const auto dout = drawn<double>(s.tokens * s.n * s.d);
    auto out = dout;
    wide_write_forward<double, double>(kStream, in[0].data(), in[1].data(), nullptr, nullptr,
                                       out.data(), s);
    expect_close(out, mixed(in), "mixed streams");
    Arrays gradients = {Values<double>(in[0].size(), NAN), Values<double>(in[1].size(), NAN)};
    wide_read_backward<double, double>(kStream,
                                       {.res = in[0].data(),
                                        .read = nullptr,
                                        .x = in[1].data(),
                                        .norm = {.none = true},
                                        .statistics = nullptr,
                                        .h = nullptr,
                                        .dh = nullptr,
                                        .dout = dout.data(),
                                        .dx = gradients[1].data(),
                                        .dread = nullptr,
                                        .dres = gradients[0].data(),
                                        .dweight = nullptr},
                                       s);
    expect_slope(
        in, gradients, [&](const Arrays& at) { return inner(mixed(at), dout); }, "mixed streams");
  }
}

}  // namespace
}  // namespace geores::kernels
#endif
