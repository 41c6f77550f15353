// The GPU's kernels from projections to routes, emulated, against their definitions.
#ifdef GEORES_EMULATED_KERNELS
#include <gtest/gtest.h>

#include <bit>
#include <utility>

#include "geores/kernels/dense/projections.h"
#include "geores/kernels/emulated_check_test.h"
#include "geores/kernels/routed/route_maps.h"
#include "geores/kernels/routed/wide_projection.h"

namespace geores::kernels {
namespace {

double rounded_to_tf32(float x) {
  return std::bit_cast<float>((std::bit_cast<uint32_t>(x) + 0x1000u) & 0xffffe000u);
}

// Projections of rows against their definition in double, and the gradients that follow from it.
template <class T>
void compare_projections(const WideProjectionShape& s, bool skips) {
  const auto what = "rows " + std::to_string(s.rows) + " width " + std::to_string(s.width) +
                    " count " + std::to_string(s.count) + (sizeof(T) == 8 ? " double" : " float") +
                    (s.rounded ? " rounded" : "");
  const auto rows = static_cast<size_t>(s.rows), width = static_cast<size_t>(s.width),
             count = static_cast<size_t>(s.count);
  const T eps = T(0.1);
  // Weights may start at any address of a flat buffer.
  const auto x = drawn<T>(s.rows * s.width), flat_w = drawn<T>(s.count * s.width + 1),
             bias = drawn<T>(s.count), draw = drawn<T>(s.rows * s.count),
             skip = drawn<T>(s.rows * s.width);
  const T* w = flat_w.data() + (skips ? 0 : 1);
  auto plain = zeros<T>(s.rows * s.count), raw = plain, inverse = zeros<T>(s.rows),
       partial = Values<T>(static_cast<size_t>(wide_projection_values<T>(s)), T(NAN));
  wide_projection_forward<T>(kStream, x.data(), w, bias.data(), eps, partial.data(), plain.data(),
                             raw.data(), inverse.data(), s);
  auto factors = zeros<T>(s.rows * (s.count + 1)), dx = Values<T>(x.size(), T(NAN)),
       dw = zeros<T>(s.count * s.width), dbias = zeros<T>(s.count);
  wide_projection_backward<T>(kStream,
                              {.x = x.data(),
                               .w = w,
                               .plain = plain.data(),
                               .inverse = inverse.data(),
                               .draw = draw.data(),
                               .skip = skips ? skip.data() : nullptr,
                               .factors = factors.data(),
                               .dx = dx.data(),
                               .dw = dw.data(),
                               .dbias = dbias.data()},
                              s);

  const auto factor = [&](T value) {
    return s.rounded ? rounded_to_tf32(float(value)) : double(value);
  };
  auto wanted = raw, wanted_inverse = inverse, wanted_dx = dx;
  Values<double> sum_dw(dw.size(), 0), sum_dbias(count, 0);
  for (size_t i = 0; i < rows; ++i) {
    const T* row = x.data() + i * width;
    double squares = 0, along = 0;
    for (size_t c = 0; c < width; ++c) squares += double(row[c]) * double(row[c]);
    const double scale = s.normalized ? 1 / std::sqrt(squares / double(s.width) + double(eps)) : 1;
    wanted_inverse[i] = T(scale);
    Values<double> sums(width, 0);
    for (size_t r = 0; r < count; ++r) {
      const double d = double(draw[i * count + r]);
      double product = 0;
      for (size_t c = 0; c < width; ++c) {
        product += double(row[c]) * double(w[r * width + c]);
        const double g = s.rounded ? factor(factors[i * (count + 1) + r]) : d * scale;
        sums[c] += g * factor(w[r * width + c]);
        sum_dw[r * width + c] += g * factor(row[c]);
      }
      wanted[i * count + r] = T(product * scale + double(bias[r]));
      if (s.normalized) along += d * product * scale;
      sum_dbias[r] += d;
    }
    for (size_t c = 0; c < width; ++c)
      wanted_dx[i * width + c] = T((skips ? double(skip[i * width + c]) : 0) + sums[c] -
                                   along * scale * scale / double(s.width) * double(row[c]));
  }
  const auto typed = [](const Values<double>& sums) { return Values<T>(sums.begin(), sums.end()); };
  expect_close(raw, wanted, what + " raw");
  expect_close(inverse, wanted_inverse, what + " inverse");
  expect_close(dx, wanted_dx, what + " dx");
  expect_close(dw, typed(sum_dw), what + " dw");
  expect_close(dbias, typed(sum_dbias), what + " dbias");
}

// Floats by matrix instructions where the width is a multiple of 4: rows and columns that end inside a
// tile, several slices, more projections than one pass takes.
TEST(Emulated, ProjectionsOfWideRowsAreTheirDefinition) {
  for (const auto& s : {WideProjectionShape{1, 4, 1}, WideProjectionShape{9, 100, 6},
                        WideProjectionShape{37, 36, 24}, WideProjectionShape{5, 300, 33},
                        WideProjectionShape{17, 1156, 17}, WideProjectionShape{3, 7, 9}})
    compare_projections<float>(s, s.count % 2 == 0);
  compare_projections<float>({270, 12, 8}, true);
  compare_projections<double>({5, 12, 10}, true);
  compare_projections<float>({9, 36, 5, false}, true);
}

TEST(Emulated, GradientsOfProjectionsRoundTheirFactorsToTf32WhereTheyMay) {
  for (auto s : {WideProjectionShape{9, 100, 6}, WideProjectionShape{37, 36, 24},
                 WideProjectionShape{70, 132, 32}, WideProjectionShape{5, 300, 33}}) {
    s.rounded = true;
    compare_projections<float>(s, s.count % 2 == 0);
  }
}

// The parts against what sigmoid_routes_* make of raw.
TEST(Emulated, PartsOfProjectionsAreThoseOfTheirRoutes) {
  constexpr int64_t kRows = 21, kN = 3, kRest = 5;
  const WideProjectionShape s{kRows, 40, 2 * kN + kRest};
  const auto x = drawn<double>(kRows * s.width), w = drawn<double>(s.count * s.width),
             bias = drawn<double>(s.count), dread = drawn<double>(kRows * kN),
             dwrite = drawn<double>(kRows * kN), dothers = drawn<double>(kRows * kRest);
  constexpr double kOffset = 0.3;
  const auto run = [&](bool in_parts) {
    const int n = in_parts ? static_cast<int>(kN) : 0;
    auto plain = zeros<double>(kRows * s.count), raw = plain, draw = plain,
         inverse = zeros<double>(kRows), read = zeros<double>(kRows * kN), write = read,
         others = zeros<double>(kRows * kRest), dx = zeros<double>(kRows * s.width),
         dw = zeros<double>(s.count * s.width), dbias = zeros<double>(s.count),
         factors = zeros<double>(kRows * (s.count + 1)),
         partial = zeros<double>(wide_projection_values<double>(s));
    const SigmoidParts<double> parts{read.data(), write.data(), others.data(), n};
    wide_projection_forward(kStream, x.data(), w.data(), bias.data(), 0.1, partial.data(),
                            plain.data(), raw.data(), inverse.data(), s, parts, kOffset);
    if (!in_parts) {
      sigmoid_routes_forward(kStream, raw.data(), kOffset, read.data(), write.data(), others.data(),
                             kRest, {kRows, kN});
      sigmoid_routes_backward(kStream, raw.data(), dread.data(), dwrite.data(), dothers.data(),
                              draw.data(), kRest, {kRows, kN});
    }
    wide_projection_backward<double>(kStream,
                                     {.x = x.data(),
                                      .w = w.data(),
                                      .plain = plain.data(),
                                      .inverse = inverse.data(),
                                      .draw = draw.data(),
                                      .skip = nullptr,
                                      .factors = factors.data(),
                                      .dx = dx.data(),
                                      .dw = dw.data(),
                                      .dbias = dbias.data(),
                                      .bias = bias.data(),
                                      .parts = {dread.data(), dwrite.data(), dothers.data(), n}},
                                     s);
    return std::vector<Values<double>>{read, write, others, dx, dw, dbias};
  };
  const auto is = run(true), wanted = run(false);
  for (size_t i = 0; i < is.size(); ++i)
    expect_close(is[i], wanted[i], "part " + std::to_string(i));
}

void compare_packed(int in) {
  // Rows and scales of three projections; 0 scales: none.
  const std::vector<std::pair<int, int>> sizes = {{6, 2}, {3, 0}, {4, 1}};
  std::vector<Values<double>> weights, scales, dweights, dscales, dbiases;
  Projections<const double> p{.each = {}, .count = 3, .in = in};
  Projections<double> gradients{.each = {}, .count = 3, .in = in};
  for (const auto& [rows, count] : sizes) {
    weights.push_back(drawn<double>(rows * in)), scales.push_back(drawn<double>(count));
    dweights.push_back(drawn<double>(rows * in)), dscales.push_back(drawn<double>(count));
    dbiases.push_back(drawn<double>(rows));
  }
  const auto biases_before_all = dbiases;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const auto [rows, count] = sizes[i];
    const int shared = std::max(count, 1);
    p.each[i] = {weights[i].data(), biases_before_all[i].data(), count ? scales[i].data() : nullptr,
                 rows, shared};
    gradients.each[i] = {dweights[i].data(), dbiases[i].data(), count ? dscales[i].data() : nullptr,
                         rows, shared};
  }
  auto packed = zeros<double>(p.rows() * in), bias = zeros<double>(p.rows());
  pack_projections(kStream, p, packed.data(), bias.data());
  const auto dpacked = drawn<double>(p.rows() * in);
  const auto dbias = drawn<double>(p.rows());
  const auto weights_before = dweights, scales_before = dscales, biases_before = dbiases;
  unpack_projection_gradients<double>(kStream, p, dpacked.data(), dbias.data(), gradients);
  size_t first = 0;  // value of the packed matrix
  for (size_t i = 0; i < sizes.size(); ++i) {
    const auto rows = static_cast<size_t>(sizes[i].first),
               count = static_cast<size_t>(sizes[i].second);
    auto wanted = weights_before[i], wanted_scales = scales_before[i],
         wanted_biases = biases_before[i];
    for (size_t row = 0; row < rows; ++row)
      EXPECT_EQ(bias[first / static_cast<size_t>(in) + row], biases_before_all[i][row]);
    for (size_t row = 0; row < rows; ++row)
      wanted_biases[row] += dbias[first / static_cast<size_t>(in) + row];
    for (size_t at = 0; at < wanted.size(); ++at) {
      const auto d = dpacked[first + at];
      const auto scale = count ? at / static_cast<size_t>(in) / (rows / count) : 0;
      EXPECT_EQ(packed[first + at], (count ? scales[i][scale] : 1.0) * weights[i][at]);
      wanted[at] += count ? scales[i][scale] * d : d;
      if (count) wanted_scales[scale] += d * weights[i][at];
    }
    expect_close(dweights[i], wanted, "weights");
    expect_close(dscales[i], wanted_scales, "scales");
    expect_close(dbiases[i], wanted_biases, "biases");
    first += wanted.size();
  }
}

// Rows that are shorter and longer than the piece that a block takes.
TEST(Emulated, PackedProjectionsAndTheirGradientsAreThoseOfTheirParts) {
  for (const int in : {300, 512, 1100}) compare_packed(in);
}

TEST(Emulated, TanhRoutesHaveTheGradientsOfTheirDefinition) {
  for (const auto& s : {MixerShape{1, 2}, MixerShape{37, 4}, MixerShape{5, 15}}) {
    const auto columns = s.n * (s.n + 2);
    const auto dres = drawn<double>(s.tokens * s.n * s.n), dread = drawn<double>(s.tokens * s.n),
               dwrite = drawn<double>(s.tokens * s.n);
    // Inputs: raw, the two scales, the parts of read, res and write that do not change.
    const std::vector<Values<double>> in = {
        drawn<double>(s.tokens * columns), drawn<double>(1),  drawn<double>(1), drawn<double>(s.n),
        drawn<double>(s.n * s.n),          drawn<double>(s.n)};
    const auto routes = [](const std::vector<Values<double>>& at) {
      return TanhRoutes<const double>{at[1].data(), at[2].data(), at[3].data(), at[4].data(),
                                      at[5].data()};
    };
    const auto forward = [&](const std::vector<Values<double>>& at) {
      std::vector<Values<double>> out = {dres, dread, dwrite};
      tanh_routes_forward<double>(kStream, at[0].data(), routes(at), out[0].data(), out[1].data(),
                                  out[2].data(), s);
      return out;
    };
    std::vector<Values<double>> wanted = {dres, dread, dwrite};
    const auto n = static_cast<size_t>(s.n);
    for (size_t t = 0; t < static_cast<size_t>(s.tokens); ++t)
      for (size_t j = 0; j < n; ++j) {
        const double* row = in[0].data() + (t * n + j) * (n + 2);
        wanted[1][t * n + j] = in[1][0] * std::tanh(row[0]) + in[3][j];
        wanted[2][t * n + j] = in[2][0] * std::tanh(row[n + 1]) + in[5][j];
        for (size_t i = 0; i < n; ++i)
          wanted[0][(t * n + i) * n + j] = in[1][0] * std::tanh(row[1 + i]) + in[4][i * n + j];
      }
    const auto made = forward(in);
    for (size_t i = 0; i < made.size(); ++i) expect_close(made[i], wanted[i], "tanh routes");
    auto gradients = in;
    for (auto& gradient : gradients) std::fill(gradient.begin(), gradient.end(), 0.0);
    tanh_routes_backward<double>(kStream, in[0].data(), routes(in), dres.data(), dread.data(),
                                 dwrite.data(), gradients[0].data(),
                                 {gradients[1].data(), gradients[2].data(), gradients[3].data(),
                                  gradients[4].data(), gradients[5].data()},
                                 s);
    expect_slope(
        in, gradients,
        [&](const auto& at) {
          const auto out = forward(at);
          return inner(out[0], dres) + inner(out[1], dread) + inner(out[2], dwrite);
        },
        "tanh routes");
  }
}

TEST(Emulated, SigmoidRoutesHaveTheGradientsOfTheirDefinition) {
  for (const int64_t rest : {0, 16, 24}) {
    constexpr MixerShape s{37, 4};
    constexpr double kOffset = 0.25;
    const auto columns = 2 * s.n + rest;
    const std::vector<Values<double>> in = {drawn<double>(s.tokens * columns)};
    const std::vector<Values<double>> cotangents = {drawn<double>(s.tokens * s.n),
                                                    drawn<double>(s.tokens * s.n),
                                                    drawn<double>(s.tokens * rest)};
    const auto forward = [&](const std::vector<Values<double>>& at) {
      auto out = cotangents;
      sigmoid_routes_forward<double>(kStream, at[0].data(), kOffset, out[0].data(), out[1].data(),
                                     out[2].data(), rest, s);
      return out;
    };
    auto wanted = cotangents;
    for (int64_t t = 0; t < s.tokens; ++t)
      for (int64_t c = 0; c < columns; ++c) {
        const auto x = in[0][static_cast<size_t>(t * columns + c)];
        const auto sigmoid = 1 / (1 + std::exp(-x));
        if (c < s.n)
          wanted[0][static_cast<size_t>(t * s.n + c)] = sigmoid + kOffset;
        else if (c < 2 * s.n)
          wanted[1][static_cast<size_t>(t * s.n + c - s.n)] = 2 * sigmoid;
        else
          wanted[2][static_cast<size_t>(t * rest + c - 2 * s.n)] = x;
      }
    const auto made = forward(in);
    for (size_t i = 0; i < made.size(); ++i) expect_close(made[i], wanted[i], "sigmoid routes");
    auto gradients = in;
    sigmoid_routes_backward<double>(kStream, in[0].data(), cotangents[0].data(),
                                    cotangents[1].data(), cotangents[2].data(), gradients[0].data(),
                                    rest, s);
    expect_slope(
        in, gradients,
        [&](const auto& at) {
          const auto out = forward(at);
          double sum = 0;
          for (size_t i = 0; i < out.size(); ++i) sum += inner(out[i], cotangents[i]);
          return sum;
        },
        "sigmoid routes");
  }
}

}  // namespace
}  // namespace geores::kernels
#endif
