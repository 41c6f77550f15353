// The kernels that take a token to its sublayer and back, emulated, against their definition in double.
#ifdef GEORES_EMULATED_KERNELS
#include <gtest/gtest.h>

#include <bit>
#include <functional>

#include "geores/kernels/emulated_check_test.h"
#include "geores/kernels/tokens/tanh_token_routes.h"
#include "geores/manifold/cayley_general.h"
#include "geores/manifold/permutation.h"
#include "geores/manifold/spectral_sphere.h"

namespace geores::kernels {
namespace {

constexpr size_t kN = kRoutedStreams, kMade = kN * kN + 2 * kN;  // res, read, write

using Doubles = Values<double>;
using MakeRoutes = std::function<Doubles(const Doubles& raw)>;

float rounded(double x) {
  auto bits = std::bit_cast<uint32_t>(static_cast<float>(x));
  bits += 0x7fffu + (bits >> 16 & 1);
  return std::bit_cast<float>(bits & 0xffff0000u);
}

Values<float> floats(const Values<BFloat16>& x) {
  Values<float> all;
  for (const auto value : x) all.push_back(std::bit_cast<float>(uint32_t{value.bits} << 16));
  return all;
}

// Numbers differ by what rounding to bfloat16 makes of them: state, weights and result are rounded, by 1.1e-3
// of a value each in the root mean square, together by 2e-3. The bound is twice that.
void expect_near(const Values<float>& is, const Doubles& wanted, const std::string& what) {
  ASSERT_EQ(is.size(), wanted.size()) << what;
  double squares = 0, error = 0;
  for (size_t i = 0; i < is.size(); ++i) {
    error += std::pow(double(is[i]) - wanted[i], 2);
    squares += wanted[i] * wanted[i];
  }
  EXPECT_LT(std::sqrt(error / (squares + 1e-30)), 4e-3) << what;
}

struct Normalized {
  Doubles values;
  double inverse;
};
Normalized normalized(const Doubles& row, bool layer, double eps) {
  double mean = 0, squares = 0;
  if (layer)
    for (const auto value : row) mean += value / double(row.size());
  for (const auto value : row) squares += std::pow(value - mean, 2);
  Normalized n{row, 1 / std::sqrt(squares / double(row.size()) + eps)};
  for (auto& value : n.values) value = (value - mean) * n.inverse;
  return n;
}
Doubles normalized_back(const Normalized& n, Doubles d, bool layer) {
  double sum = 0, along = 0;
  const auto size = double(d.size());
  for (size_t i = 0; i < d.size(); ++i) sum += layer ? d[i] : 0, along += d[i] * n.values[i];
  for (size_t i = 0; i < d.size(); ++i)
    d[i] = n.inverse * (d[i] - sum / size - n.values[i] * along / size);
  return d;
}

// Of the whole token, or of its streams one by one.
std::vector<Normalized> normalized_parts(const Doubles& row, size_t parts, bool layer, double eps) {
  std::vector<Normalized> all;
  const auto size = static_cast<int64_t>(row.size() / parts);
  for (size_t i = 0; i < parts; ++i) {
    const auto begin = row.begin() + static_cast<int64_t>(i) * size;
    all.push_back(normalized(Doubles(begin, begin + size), layer, eps));
  }
  return all;
}

// Of one token.
struct TokenGradients {
  Doubles raw, dmade;
};

template <class Routes>
std::vector<TokenGradients> compare_token_routes(const Routes& routes, const MakeRoutes& make,
                                                 int64_t tokens, int64_t d, bool layer) {
  constexpr bool kByStream = std::is_same_v<Routes, TanhTokenRoutes>;
  constexpr size_t kParts = kByStream ? kN : 1;
  const auto width = static_cast<size_t>(d) * kN,
             raw_count = static_cast<size_t>(raw_values(routes)),
             stored = static_cast<size_t>(stored_raw(raw_values(routes))),
             tiles = static_cast<size_t>(read_tiles(routes)), d_size = static_cast<size_t>(d),
             count = static_cast<size_t>(tokens);
  const auto what = "streams of " + std::to_string(d) + " ";
  constexpr float kTokenEps = 1e-5f;
  const auto all = tokens * static_cast<int64_t>(width);
  const auto x = drawn<float>(all), dout = drawn<float>(all),
             read_weight = drawn<float>(static_cast<int64_t>(tiles) * d),
             dwrite = drawn<float>(tokens * static_cast<int64_t>(kN)),
             bias = drawn<float>(static_cast<int64_t>(raw_count));
  auto w = drawn<float>(static_cast<int64_t>(raw_count * width));
  for (auto& value : w) value *= 0.1f;
  const auto shared_w = drawn<float>(6 * d);
  if (kByStream)
    for (size_t i = 0; i < w.size(); ++i) {
      const auto stream = i / width / 6, row = i / width % 6, column = i % width;
      w[i] = column / d_size == stream ? shared_w[row * d_size + column % d_size] : 0.f;
    }
  Values<BFloat16> dh;
  for (const auto value : drawn<float>(tokens * static_cast<int64_t>(tiles) * d))
    dh.push_back({static_cast<uint16_t>(std::bit_cast<uint32_t>(rounded(value)) >> 16)});

  constexpr BFloat16 kNan{0x7fc0};  // the padding of the weights is written, too
  Values<BFloat16> forward(stored * width, kNan),
      backward(static_cast<size_t>(padded_raw(raw_values(routes))) * width, kNan);
  Values<float> packed_bias(stored, NAN);
  Projections<const float> projections{.each = {}, .count = 1, .in = static_cast<int>(width)};
  projections.each[0] = {w.data(), bias.data(), nullptr, static_cast<int>(raw_count), 0};
  const RouteWeights weights{forward.data(), backward.data(), packed_bias.data()};
  if constexpr (kByStream)
    pack_stream_weights(kStream,
                        {shared_w.data(), shared_w.data() + d_size, shared_w.data() + 5 * d_size},
                        weights, d);
  else
    pack_route_weights(kStream, projections, {nullptr, nullptr}, weights);

  const Norm<float> norm{.kind = layer ? NormKind::layer : NormKind::rms,
                         .weight = nullptr,
                         .bias = nullptr,
                         .eps = kTokenEps},
      read_norm{
          .kind = NormKind::layer, .weight = read_weight.data(), .bias = nullptr, .eps = kTokenEps};
  Values<BFloat16> z(count * width), h(count * tiles * d_size), draw(count * stored);
  Values<RowStatistics<float>> statistics(count * kParts), read_statistics(count);
  auto raw = zeros<float>(tokens * static_cast<int64_t>(stored)), res = zeros<float>(tokens * 16),
       read = zeros<float>(tokens * 4), write = read, dx = Values<float>(x.size(), NAN),
       dread_weight = zeros<float>(static_cast<int64_t>(tiles) * d),
       dbias = zeros<float>(static_cast<int64_t>(stored));
  token_route_forward(kStream,
                      {.x = x.data(),
                       .norm = norm,
                       .weights = weights,
                       .read_norm = read_norm,
                       .z = z.data(),
                       .statistics = statistics.data(),
                       .raw = raw.data(),
                       .res = res.data(),
                       .read = read.data(),
                       .write = write.data(),
                       .h = h.data(),
                       .read_statistics = read_statistics.data()},
                      routes, tokens, d);
  token_route_backward(kStream,
                       {.x = x.data(),
                        .norm = norm,
                        .statistics = statistics.data(),
                        .weights = weights,
                        .raw = raw.data(),
                        .res = res.data(),
                        .read = read.data(),
                        .read_norm = read_norm,
                        .read_statistics = read_statistics.data(),
                        .dh = dh.data(),
                        .dwrite = dwrite.data(),
                        .dout = dout.data(),
                        .draw = draw.data(),
                        .dx = dx.data(),
                        .dread_weight = dread_weight.data(),
                        .dbias = dbias.data()},
                       routes, tokens, d);

  Doubles wanted_raw, wanted_res, wanted_read, wanted_write, wanted_h, wanted_z, wanted_draw,
      wanted_dx, wanted_dread_weight(tiles * d_size, 0), wanted_dbias(stored, 0);
  const auto gradient_h = floats(dh);
  std::vector<TokenGradients> all_gradients;
  for (size_t t = 0; t < count; ++t) {
    const Doubles row(x.begin() + static_cast<int64_t>(t * width),
                      x.begin() + static_cast<int64_t>((t + 1) * width));
    const auto state = normalized_parts(row, kParts, layer, double(kTokenEps));
    Doubles token_raw(bias.begin(), bias.end()), z_values;
    for (const auto& part : state)
      z_values.insert(z_values.end(), part.values.begin(), part.values.end());
    if (kByStream) std::fill(token_raw.begin(), token_raw.end(), 0);
    for (size_t r = 0; r < raw_count; ++r)
      for (size_t c = 0; c < width; ++c)
        token_raw[r] += double(rounded(z_values[c])) * double(rounded(w[r * width + c]));
    const auto made = make(token_raw);
    Doubles collected(d_size, 0);
    for (size_t j = 0; j < kN; ++j)
      for (size_t c = 0; c < d_size; ++c) collected[c] += made[16 + j] * row[j * d_size + c];
    const auto seen = normalized(collected, true, double(kTokenEps));
    Doubles dseen(d_size, 0);
    for (size_t i = 0; i < tiles * d_size; ++i) {
      const double gradient = double(gradient_h[t * tiles * d_size + i]);
      wanted_h.push_back(seen.values[i % d_size] * double(read_weight[i]));
      wanted_dread_weight[i] += gradient * seen.values[i % d_size];
      dseen[i % d_size] += gradient * double(read_weight[i]);
    }
    const auto dc = normalized_back(seen, dseen, true);
    Doubles dmade(kMade, 0), dnormal(width, 0);
    for (size_t j = 0; j < kN; ++j) {
      for (size_t c = 0; c < d_size; ++c) {
        dmade[16 + j] += row[j * d_size + c] * dc[c];
        for (size_t i = 0; i < kN; ++i)
          dmade[i * kN + j] += double(dout[t * width + i * d_size + c]) * row[j * d_size + c];
      }
      dmade[20 + j] = double(dwrite[t * kN + j]);
    }
    for (size_t r = 0; r < raw_count; ++r) {
      constexpr double kStep = 1e-5;
      auto ahead = token_raw, behind = token_raw;
      ahead[r] += kStep, behind[r] -= kStep;
      const auto up = make(ahead), down = make(behind);
      double slope = 0;
      for (size_t i = 0; i < kMade; ++i) slope += dmade[i] * (up[i] - down[i]) / (2 * kStep);
      wanted_draw.push_back(slope);
      wanted_dbias[r] += slope;
      for (size_t c = 0; c < width; ++c)
        dnormal[c] += double(rounded(slope)) * double(rounded(w[r * width + c]));
    }
    wanted_draw.resize((t + 1) * stored, 0);
    Doubles dstate;
    for (size_t i = 0; i < kParts; ++i) {
      const auto begin = dnormal.begin() + static_cast<int64_t>(i * width / kParts);
      for (const auto value : normalized_back(
               state[i], Doubles(begin, begin + static_cast<int64_t>(width / kParts)), layer))
        dstate.push_back(value);
    }
    for (size_t j = 0; j < kN; ++j)
      for (size_t c = 0; c < d_size; ++c) {
        dstate[j * d_size + c] += made[16 + j] * dc[c];
        for (size_t i = 0; i < kN; ++i)
          dstate[j * d_size + c] += made[i * kN + j] * double(dout[t * width + i * d_size + c]);
      }
    const auto append = [](Doubles& to, const Doubles& from, size_t begin, size_t size) {
      for (size_t i = begin; i < begin + size; ++i) to.push_back(from[i]);
    };
    all_gradients.push_back({token_raw, dmade});
    append(wanted_raw, token_raw, 0, raw_count), wanted_raw.resize((t + 1) * stored, 0);
    append(wanted_res, made, 0, 16);
    append(wanted_read, made, 16, kN), append(wanted_write, made, 20, kN);
    append(wanted_z, z_values, 0, width), append(wanted_dx, dstate, 0, width);
  }
  expect_near(raw, wanted_raw, what + "raw"), expect_near(res, wanted_res, what + "res");
  expect_near(read, wanted_read, what + "read"), expect_near(write, wanted_write, what + "write");
  expect_near(floats(h), wanted_h, what + "h"), expect_near(floats(z), wanted_z, what + "z");
  expect_near(floats(draw), wanted_draw, what + "draw"), expect_near(dx, wanted_dx, what + "dx");
  expect_near(dread_weight, wanted_dread_weight, what + "dread_weight");
  if (!kByStream) expect_near(dbias, wanted_dbias, what + "dbias");
  return all_gradients;
}

// Column means of a softmax over rows and row sums of one over columns; nothing is mixed.
Doubles softmax_routes(const Doubles& raw) {
  Doubles made(kMade, 0);
  for (size_t i = 0; i < kN; ++i) {
    double rows = 0, columns = 0;
    for (size_t j = 0; j < kN; ++j)
      rows += std::exp(raw[i * kN + j]), columns += std::exp(raw[16 + j * kN + i]);
    for (size_t j = 0; j < kN; ++j) {
      made[16 + j] += std::exp(raw[i * kN + j]) / rows / double(kN);
      made[20 + j] += std::exp(raw[16 + j * kN + i]) / columns;
    }
    made[i * kN + i] = 1;
  }
  return made;
}

TEST(Emulated, SoftmaxRoutesOfTokensAreTheirDefinition) {
  compare_token_routes(SoftmaxRoutes(), softmax_routes, 37, 32, true);
  compare_token_routes(SoftmaxRoutes(), softmax_routes, 17, 64, true);
  compare_token_routes(SoftmaxRoutes(), softmax_routes, 19, 128, true);
}

// read = σ(raw), write = 2σ(raw), and the mixer's output for the other values.
MakeRoutes with_sigmoids(const MakeRoutes& mixer) {
  return [=](const Doubles& raw) {
    auto made = mixer({raw.begin() + 2 * kN, raw.end()});
    made.resize(kMade);
    for (size_t i = 0; i < kN; ++i) {
      made[16 + i] = 1 / (1 + std::exp(-raw[i]));
      made[20 + i] = 2 / (1 + std::exp(-raw[kN + i]));
    }
    return made;
  };
}

// Sums over rows or columns, in turn, become 1.
MakeRoutes sinkhorn(int iterations, double bound, double guard, bool rows_first) {
  return with_sigmoids([=](const Doubles& logits) {
    Doubles p;
    for (const auto logit : logits)
      p.push_back(std::exp(bound > 0 ? std::clamp(logit, -bound, bound) : logit));
    for (int k = 0; k < 2 * iterations; ++k)
      for (size_t i = 0; i < kN; ++i) {
        const auto at = [&](size_t j) -> double& {
          return p[(k % 2 == 0) == rows_first ? i * kN + j : j * kN + i];
        };
        double sum = guard;
        for (size_t j = 0; j < kN; ++j) sum += at(j);
        for (size_t j = 0; j < kN; ++j) at(j) /= sum;
      }
    return p;
  });
}

// The EΔ paper's mHC: n copies side by side.
TEST(Emulated, GuardedRoutesOfTokensAreTheirDefinition) {
  compare_token_routes(GuardedRoutes<float>{5, 1e-6f}, sinkhorn(5, 0, 1e-6, true), 35, 32, false);
}

// The implicit gradient is that of the limit.
TEST(Emulated, SinkhornRoutesOfTokensAreTheirDefinition) {
  compare_token_routes(SinkhornRoutes{6, 0, true}, sinkhorn(6, 0, 0, false), 35, 32, false);
  compare_token_routes(SinkhornRoutes{3, 1, true}, sinkhorn(3, 1, 0, false), 18, 128, false);
  compare_token_routes(SinkhornRoutes{60, 0, false}, sinkhorn(60, 0, 0, false), 7, 64, false);
  compare_token_routes(SinkhornRoutes{60, 1.5, false}, sinkhorn(60, 1.5, 0, false), 7, 32, false);
}

TEST(Emulated, PermutationRoutesOfTokensAreTheirDefinition) {
  const auto make = with_sigmoids([](const Doubles& logits) {
    Doubles p(kN * kN, 0);
    double sum = 0;
    for (const auto logit : logits) sum += std::exp(logit);
    for (size_t m = 0; m < logits.size(); ++m)
      for (size_t i = 0; i < kN; ++i)
        p[i * kN + static_cast<size_t>(manifold::nth_permutation<kRoutedStreams>(
                       static_cast<int>(m))[static_cast<int>(i)])] += std::exp(logits[m]) / sum;
    return p;
  });
  compare_token_routes(PermutationRoutes(), make, 37, 32, false);
  compare_token_routes(PermutationRoutes(), make, 6, 128, false);
}

// Streams that are normalized one by one, with the same projections; the gradients of the parameters
// behind them are summed by the same kernel.
TEST(Emulated, TanhRoutesOfTokensAreTheirDefinition) {
  for (const int64_t d : {32, 64, 128}) {
    auto parameters = drawn<float>(26), gradients = zeros<float>(26);  // res, pre, post, scales
    const auto arrays = [](auto* p) {
      return TanhRoutes<std::remove_pointer_t<decltype(p)>>{
          .scale = p + 24, .post_scale = p + 25, .pre = p + 16, .res = p, .post = p + 20};
    };
    // Where value k of stream j belongs.
    const auto index = [](size_t j, size_t k) {
      return k == 0 ? 16 + j : k < 5 ? 4 * (k - 1) + j : 20 + j;
    };
    const auto make = [&](const Doubles& raw) {
      Doubles made(kMade, 0);
      for (size_t j = 0; j < kN; ++j)
        for (size_t k = 0; k < 6; ++k)
          made[index(j, k)] = double(parameters[k < 5 ? 24 : 25]) * std::tanh(raw[6 * j + k]) +
                              double(parameters[index(j, k)]);
      return made;
    };
    const auto tokens =
        compare_token_routes(TanhTokenRoutes{arrays(static_cast<const float*>(parameters.data())),
                                             arrays(gradients.data())},
                             make, d == 32 ? 35 : 6, d, false);
    Doubles wanted(26, 0);
    for (const auto& [raw, dmade] : tokens)
      for (size_t j = 0; j < kN; ++j)
        for (size_t k = 0; k < 6; ++k) {
          wanted[index(j, k)] += dmade[index(j, k)];
          wanted[k < 5 ? 24 : 25] += dmade[index(j, k)] * std::tanh(raw[6 * j + k]);
        }
    expect_near(gradients, wanted, "parameters");
  }
}

TEST(Emulated, GradientsOfStreamsSumOverTheirBlocks) {
  constexpr size_t kD = 32, kWidth = kN * kD;
  const auto sums = drawn<float>(24 * kWidth);
  auto gradients = drawn<float>(6 * kD);
  Doubles wanted(gradients.begin(), gradients.end());
  unpack_stream_gradients(kStream, sums.data(),
                          {gradients.data(), gradients.data() + kD, gradients.data() + 5 * kD}, kD);
  for (size_t j = 0; j < kN; ++j)
    for (size_t k = 0; k < 6; ++k)
      for (size_t c = 0; c < kD; ++c)
        wanted[k * kD + c] += double(sums[(6 * j + k) * kWidth + j * kD + c]);
  expect_near(gradients, wanted, "gradients of streams");
}

// 17 raw values, stored as 24.
TEST(Emulated, SphereRoutesOfTokensAreTheirDefinition) {
  const auto make = with_sigmoids([](const Doubles& raw) {
    double turned[9];
    for (size_t i = 0; i < 9; ++i) turned[i] = std::tanh(raw[i]);
    const auto rotation = [&](const double* entries) {
      return manifold::cayley_transform(manifold::skew_from_entries<double, 3>(entries));
    };
    const auto h = manifold::spectral_sphere(
        rotation(turned), manifold::Vector<double, 3>{{turned[6], turned[7], turned[8]}},
        rotation(turned + 3));
    Doubles p;
    for (int i = 0; i < 16; ++i) p.push_back(h(i / 4, i % 4));
    return p;
  });
  compare_token_routes(SphereRoutes(), make, 34, 32, false);
  compare_token_routes(SphereRoutes(), make, 5, 128, false);
}

}  // namespace
}  // namespace geores::kernels
#endif
