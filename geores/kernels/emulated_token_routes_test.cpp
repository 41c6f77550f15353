// The kernels that take a token to its sublayer and back, emulated, against their definition in double.
#ifdef GEORES_EMULATED_KERNELS
#include <gtest/gtest.h>

#include <functional>

#include "geores/kernels/emulated_check_test.h"
#include "geores/kernels/routed/token_routes.h"

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

// Numbers differ by what another rounding of single factors to bfloat16 makes of them.
void expect_near(const Values<float>& is, const Doubles& wanted, const std::string& what) {
  ASSERT_EQ(is.size(), wanted.size()) << what;
  double squares = 0, error = 0;
  for (size_t i = 0; i < is.size(); ++i) {
    error += std::pow(double(is[i]) - wanted[i], 2);
    squares += wanted[i] * wanted[i];
  }
  EXPECT_LT(std::sqrt(error / (squares + 1e-30)), 2e-3) << what;
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

template <class Routes>
void compare_token_routes(const Routes& routes, const MakeRoutes& make, int64_t tokens, int64_t d,
                          bool layer) {
  const auto width = static_cast<size_t>(d) * kN,
             raw_count = static_cast<size_t>(raw_values(routes)),
             tiles = static_cast<size_t>(read_tiles(routes)), d_size = static_cast<size_t>(d),
             count = static_cast<size_t>(tokens);
  const auto what = "streams of " + std::to_string(d) + " ";
  constexpr float kEps = 1e-5f;
  const auto all = tokens * static_cast<int64_t>(width);
  const auto x = drawn<float>(all), dout = drawn<float>(all),
             read_weight = drawn<float>(static_cast<int64_t>(tiles) * d),
             dwrite = drawn<float>(tokens * static_cast<int64_t>(kN)),
             bias = drawn<float>(static_cast<int64_t>(raw_count));
  auto w = drawn<float>(static_cast<int64_t>(raw_count * width));
  for (auto& value : w) value *= 0.1f;
  Values<BFloat16> dh;
  for (const auto value : drawn<float>(tokens * static_cast<int64_t>(tiles) * d))
    dh.push_back({static_cast<uint16_t>(std::bit_cast<uint32_t>(rounded(value)) >> 16)});

  Values<BFloat16> forward(raw_count * width),
      backward(static_cast<size_t>(padded_raw(raw_values(routes))) * width);
  auto packed_bias = room<float>(raw_values(routes));
  Projections<const float> projections{.each = {}, .count = 1, .in = static_cast<int>(width)};
  projections.each[0] = {w.data(), bias.data(), nullptr, static_cast<int>(raw_count), 0};
  const RouteWeights weights{forward.data(), backward.data(), packed_bias.data()};
  pack_route_weights(kStream, projections, {nullptr, nullptr}, weights);

  const Norm<float> norm{.kind = layer ? NormKind::layer : NormKind::rms,
                         .weight = nullptr,
                         .bias = nullptr,
                         .eps = kEps},
      read_norm{
          .kind = NormKind::layer, .weight = read_weight.data(), .bias = nullptr, .eps = kEps};
  Values<BFloat16> z(count * width), h(count * tiles * d_size), draw(count * raw_count);
  Values<RowStatistics<float>> statistics(count), read_statistics(count);
  auto raw = room<float>(tokens * raw_values(routes)), res = room<float>(tokens * 16),
       read = room<float>(tokens * 4), write = read, dx = Values<float>(x.size(), NAN),
       dread_weight = room<float>(static_cast<int64_t>(tiles) * d),
       dbias = room<float>(raw_values(routes));
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
      wanted_dx, wanted_dread_weight(tiles * d_size, 0), wanted_dbias(raw_count, 0);
  const auto gradient_h = floats(dh);
  for (size_t t = 0; t < count; ++t) {
    const Doubles row(x.begin() + static_cast<int64_t>(t * width),
                      x.begin() + static_cast<int64_t>((t + 1) * width));
    const auto state = normalized(row, layer, double(kEps));
    Doubles token_raw(bias.begin(), bias.end());
    for (size_t r = 0; r < raw_count; ++r)
      for (size_t c = 0; c < width; ++c)
        token_raw[r] += double(rounded(state.values[c])) * double(rounded(w[r * width + c]));
    const auto made = make(token_raw);
    Doubles collected(d_size, 0);
    for (size_t j = 0; j < kN; ++j)
      for (size_t c = 0; c < d_size; ++c) collected[c] += made[16 + j] * row[j * d_size + c];
    const auto seen = normalized(collected, true, double(kEps));
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
    auto dstate = normalized_back(state, dnormal, layer);
    for (size_t j = 0; j < kN; ++j)
      for (size_t c = 0; c < d_size; ++c) {
        dstate[j * d_size + c] += made[16 + j] * dc[c];
        for (size_t i = 0; i < kN; ++i)
          dstate[j * d_size + c] += made[i * kN + j] * double(dout[t * width + i * d_size + c]);
      }
    const auto append = [](Doubles& to, const Doubles& from, size_t begin, size_t size) {
      for (size_t i = begin; i < begin + size; ++i) to.push_back(from[i]);
    };
    append(wanted_raw, token_raw, 0, raw_count), append(wanted_res, made, 0, 16);
    append(wanted_read, made, 16, kN), append(wanted_write, made, 20, kN);
    append(wanted_z, state.values, 0, width), append(wanted_dx, dstate, 0, width);
  }
  expect_near(raw, wanted_raw, what + "raw"), expect_near(res, wanted_res, what + "res");
  expect_near(read, wanted_read, what + "read"), expect_near(write, wanted_write, what + "write");
  expect_near(floats(h), wanted_h, what + "h"), expect_near(floats(z), wanted_z, what + "z");
  expect_near(floats(draw), wanted_draw, what + "draw"), expect_near(dx, wanted_dx, what + "dx");
  expect_near(dread_weight, wanted_dread_weight, what + "dread_weight");
  expect_near(dbias, wanted_dbias, what + "dbias");
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

// The EΔ paper's mHC: sigmoids, and Sinkhorn with a guard, n copies side by side.
TEST(Emulated, GuardedRoutesOfTokensAreTheirDefinition) {
  constexpr int kIterations = 5;
  constexpr double kGuard = 1e-6;
  const auto make = [&](const Doubles& raw) {
    Doubles made(kMade, 0);
    for (size_t i = 0; i < kN; ++i) {
      made[16 + i] = 1 / (1 + std::exp(-raw[i]));
      made[20 + i] = 2 / (1 + std::exp(-raw[kN + i]));
      for (size_t j = 0; j < kN; ++j) made[i * kN + j] = std::exp(raw[2 * kN + i * kN + j]);
    }
    for (int k = 0; k < 2 * kIterations; ++k)
      for (size_t i = 0; i < kN; ++i) {
        const auto at = [&](size_t j) -> double& {
          return made[k % 2 == 0 ? i * kN + j : j * kN + i];
        };
        double sum = kGuard;
        for (size_t j = 0; j < kN; ++j) sum += at(j);
        for (size_t j = 0; j < kN; ++j) at(j) /= sum;
      }
    return made;
  };
  compare_token_routes(GuardedRoutes<float>{kIterations, float(kGuard)}, make, 35, 32, false);
}

}  // namespace
}  // namespace geores::kernels
#endif
