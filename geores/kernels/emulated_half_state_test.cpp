// The GPU's kernels on a state that is kept in bfloat16, emulated, against the same kernels on the same
// values in float: values stored in bfloat16 differ by their rounding, and all sums agree.
#ifdef GEORES_EMULATED_KERNELS
#include <gtest/gtest.h>

#include <bit>
#include <utility>

#include "geores/kernels/emulated_check_test.h"
#include "geores/kernels/norms/post_norm.h"
#include "geores/kernels/routed/wide_post_norm.h"
#include "geores/kernels/routed/wide_projection.h"
#include "geores/kernels/routed/wide_streams.h"

namespace geores::kernels {
namespace {

using Half = BFloat16;

float half_number(Half x) { return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16); }
float half_number(float x) { return x; }

Half cut(double x) {
  return {static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(x)) >> 16)};
}

// Numbers that bfloat16 holds, in type S.
template <class S>
Values<S> held(const Values<Half>& values) {
  Values<S> all;
  for (const auto value : values) {
    if constexpr (sizeof(S) == 2)
      all.push_back(value);
    else
      all.push_back(half_number(value));
  }
  return all;
}

Values<Half> drawn_half(int64_t size) {
  Values<Half> all;
  for (const auto value : drawn<double>(size)) all.push_back(cut(value));
  return all;
}

template <class S>
Values<float> numbers(const Values<S>& values) {
  Values<float> all;
  for (const auto value : values) all.push_back(half_number(value));
  return all;
}

// The results of a run: arrays that were stored in the state's type, and all others.
struct HalfResults {
  std::vector<Values<float>> stored, sums;
};

// A stored value is rounded once, at numbers of about its size; `slack` is the additional error allowed.
void expect_rounded(const HalfResults& half, const HalfResults& full, const std::string& what,
                    float slack = 1e-5f) {
  ASSERT_EQ(half.stored.size(), full.stored.size());
  for (size_t a = 0; a < full.stored.size(); ++a)
    for (size_t i = 0; i < full.stored[a].size(); ++i) {
      const auto exact = full.stored[a][i], kept = half.stored[a][i];
      ASSERT_LE(std::abs(kept - exact), std::abs(exact) / 250 + slack)
          << what << " array " << a << " value " << i;
    }
  for (size_t a = 0; a < full.sums.size(); ++a)
    expect_close(half.sums[a], full.sums[a], what + " sum " + std::to_string(a));
}

// As much as all arrays of a token need, the same for both types.
struct HalfInputs {
  Values<Half> x, dout, added, y, dh, out;
  Values<float> res, read, write, inverse, weight;

  explicit HalfInputs(const StreamShape& s)
      : x(drawn_half(s.tokens * s.n * s.d)),
        dout(drawn_half(s.tokens * s.n * s.d)),
        added(drawn_half(s.tokens * s.n * s.d)),
        y(drawn_half(s.tokens * s.d)),
        dh(drawn_half(s.tokens * s.d)),
        out(drawn_half(s.tokens * s.n * s.d)),
        res(drawn<float>(s.tokens * s.n * s.n)),
        read(drawn<float>(s.tokens * s.n)),
        write(drawn<float>(s.tokens * s.n)),
        inverse(drawn<float>(s.tokens)),
        weight(drawn<float>(s.d)) {}
};

template <class S>
HalfResults around_a_sublayer(const HalfInputs& in, const StreamShape& s, bool normalized) {
  const auto x = held<S>(in.x), dout = held<S>(in.dout);
  const ReadNorm<float> norm{
      .none = !normalized,
      .norm = {.kind = NormKind::layer, .weight = in.weight.data(), .bias = nullptr, .eps = 1e-5f}};
  auto h = Values<Half>(in.y.size()), dy = h;
  auto statistics = Values<RowStatistics<float>>(static_cast<size_t>(s.tokens));
  wide_read_forward(kStream, in.read.data(), x.data(), norm, h.data(), statistics.data(), s);
  auto out = x, dx = x;
  wide_write_forward(kStream, in.res.data(), x.data(), in.write.data(), in.y.data(), out.data(), s);
  auto dwrite = zeros<float>(s.tokens * s.n), dread = dwrite,
       dres = zeros<float>(s.tokens * s.n * s.n), dweight = zeros<float>(s.d);
  wide_write_backward(kStream, in.write.data(), in.y.data(), dout.data(), dwrite.data(), dy.data(),
                      s);
  wide_read_backward<float, Half, S>(kStream,
                                     {.res = in.res.data(),
                                      .read = in.read.data(),
                                      .x = x.data(),
                                      .norm = norm,
                                      .statistics = statistics.data(),
                                      .h = h.data(),
                                      .dh = in.dh.data(),
                                      .dout = dout.data(),
                                      .dx = dx.data(),
                                      .dread = dread.data(),
                                      .dres = dres.data(),
                                      .dweight = dweight.data()},
                                     s);
  return {.stored = {numbers(out), numbers(dx), numbers(h), numbers(dy)},
          .sums = {dwrite, dread, dres, dweight}};
}

// Streams that are mixed and nothing else: no branch is written, nothing is read.
template <class S>
HalfResults mixed_alone(const HalfInputs& in, const StreamShape& s) {
  const auto x = held<S>(in.x), dout = held<S>(in.dout);
  auto out = x, dx = x;
  auto dres = zeros<float>(s.tokens * s.n * s.n);
  wide_write_forward<float, Half, S>(kStream, in.res.data(), x.data(), nullptr, nullptr, out.data(),
                                     s);
  wide_read_backward<float, Half, S>(kStream,
                                     {.res = in.res.data(),
                                      .read = nullptr,
                                      .x = x.data(),
                                      .norm = {.none = true},
                                      .statistics = nullptr,
                                      .h = nullptr,
                                      .dh = nullptr,
                                      .dout = dout.data(),
                                      .dx = dx.data(),
                                      .dread = nullptr,
                                      .dres = dres.data(),
                                      .dweight = nullptr},
                                     s);
  return {.stored = {numbers(out), numbers(dx)}, .sums = {dres}};
}

template <class S>
HalfResults write_and_norm(const HalfInputs& in, const StreamShape& s) {
  const auto x = held<S>(in.x), dout = held<S>(in.dout), added = held<S>(in.added),
             given = held<S>(in.out);
  auto out = x, sum = x, dv = x;
  auto inverse = zeros<float>(s.tokens), dwrite = zeros<float>(s.tokens * s.n);
  auto dy = in.y;
  wide_write_norm_forward<float, Half, S>(kStream,
                                          {.res = in.res.data(),
                                           .x = x.data(),
                                           .write = in.write.data(),
                                           .y = in.y.data(),
                                           .eps = 1e-2f,
                                           .added = added.data(),
                                           .out = out.data(),
                                           .sum = sum.data(),
                                           .inverse = inverse.data()},
                                          s);
  wide_write_norm_backward<float, Half, S>(kStream,
                                           {.write = in.write.data(),
                                            .y = in.y.data(),
                                            .out = given.data(),
                                            .inverse = in.inverse.data(),
                                            .dout = dout.data(),
                                            .dv = dv.data(),
                                            .dwrite = dwrite.data(),
                                            .dy = dy.data()},
                                           s);
  return {.stored = {numbers(out), numbers(sum), numbers(dv), numbers(dy)},
          .sums = {inverse, dwrite}};
}

template <class S>
HalfResults projections(const Values<Half>& given, const Values<Half>& given_skip,
                        const Values<float>& w, const Values<float>& draw,
                        const WideProjectionShape& s, bool skips) {
  const auto x = held<S>(given), skip = held<S>(given_skip);
  const auto bias = Values<float>(static_cast<size_t>(s.count), 0.5f);
  auto plain = zeros<float>(s.rows * s.count), raw = plain, inverse = zeros<float>(s.rows),
       partial = zeros<float>(wide_projection_values<float>(s));
  wide_projection_forward(kStream, x.data(), w.data(), bias.data(), 0.1f, partial.data(),
                          plain.data(), raw.data(), inverse.data(), s);
  auto factors = zeros<float>(s.rows * (s.count + 1)), dw = zeros<float>(s.count * s.width),
       dbias = zeros<float>(s.count);
  auto dx = x;
  wide_projection_backward<float, S>(kStream,
                                     {.x = x.data(),
                                      .w = w.data(),
                                      .plain = plain.data(),
                                      .inverse = inverse.data(),
                                      .draw = draw.data(),
                                      .skip = skips ? skip.data() : nullptr,
                                      .factors = factors.data(),
                                      .dx = dx.data(),
                                      .dw = dw.data(),
                                      .dbias = dbias.data()},
                                     s);
  return {.stored = {numbers(dx)}, .sums = {raw, plain, inverse, dw, dbias}};
}

// Eight values at once, four, and one by one; streams that are too many for eight.
TEST(EmulatedHalfState, TokensAroundASublayerAreThoseOfAFloatState) {
  for (const auto& s : {StreamShape{5, 4, 264}, StreamShape{3, 2, 7}, StreamShape{9, 4, 12},
                        StreamShape{2, 8, 256}, StreamShape{6, 3, 100}, StreamShape{3, 4, 256},
                        // tokens that wait in shared memory
                        StreamShape{2, 4, 1024}, StreamShape{2, 8, 520}}) {
    const HalfInputs in(s);
    const auto what = "n " + std::to_string(s.n) + " d " + std::to_string(s.d);
    for (const bool normalized : {true, false})
      expect_rounded(around_a_sublayer<Half>(in, s, normalized),
                     around_a_sublayer<float>(in, s, normalized), what);
    expect_rounded(write_and_norm<Half>(in, s), write_and_norm<float>(in, s), what + " norm");
    expect_rounded(mixed_alone<Half>(in, s), mixed_alone<float>(in, s), what + " mixed alone");
  }
}

// Widths that matrix instructions take and others; a state that is longer than one slice of weights.
TEST(EmulatedHalfState, ProjectionsAreThoseOfAFloatState) {
  for (const auto& s : {WideProjectionShape{37, 40, 24}, WideProjectionShape{9, 100, 6},
                        WideProjectionShape{17, 1160, 17}, WideProjectionShape{3, 7, 9},
                        WideProjectionShape{20, 64, 33}, WideProjectionShape{50, 72, 5},
                        WideProjectionShape{33, 24, 14}, WideProjectionShape{70, 296, 30}})
    for (const bool skips : {true, false}) {
      const auto x = drawn_half(s.rows * s.width), skip = drawn_half(s.rows * s.width);
      const auto w = drawn<float>(s.count * s.width), draw = drawn<float>(s.rows * s.count);
      const auto half = projections<Half>(x, skip, w, draw, s, skips),
                 full = projections<float>(x, skip, w, draw, s, skips);
      const auto what = "width " + std::to_string(s.width) + " count " + std::to_string(s.count);
      // Factors keep 16 bits. More projections than one pass takes are added to dx in several, each of
      // which rounds it.
      float largest = 0;
      for (const auto value : full.stored[0]) largest = std::max(largest, std::abs(value));
      expect_rounded(half, full, what, s.count <= kProjectedAtOnce ? largest / 65536 : 0.1f);
    }
}

template <class S>
HalfResults post_normed(const std::vector<Values<Half>>& in, const Values<float>& given,
                        int64_t rows, int64_t width) {
  const auto x = held<S>(in[0]), added = held<S>(in[1]), z = held<S>(in[2]), dy = held<S>(in[3]),
             dsum = held<S>(in[4]);
  const auto &branch = in[5], &dproduct = in[6];
  auto y = x, sum = x, dx = x, dadded = x;
  auto inverse = zeros<float>(rows);
  post_norm_forward(kStream,
                    PostNormForward<float, Half, S>{.x = x.data(),
                                                    .branch = branch.data(),
                                                    .added = added.data(),
                                                    .eps = 1e-2f,
                                                    .y = y.data(),
                                                    .sum = sum.data(),
                                                    .product = nullptr,
                                                    .inverse = inverse.data()},
                    rows, width);
  post_norm_backward(kStream,
                     PostNormBackward<float, Half, S>{.y = z.data(),
                                                      .inverse = given.data(),
                                                      .dy = dy.data(),
                                                      .dsum = dsum.data(),
                                                      .dproduct = dproduct.data(),
                                                      .dx = dx.data(),
                                                      .dbranch = nullptr,
                                                      .dadded = dadded.data()},
                     rows, width);
  return {.stored = {numbers(y), numbers(sum), numbers(dx), numbers(dadded)}, .sums = {inverse}};
}

TEST(EmulatedHalfState, ANormBehindASumIsThatOfAFloatState) {
  for (const auto& [rows, width] : {std::pair<int64_t, int64_t>{3, 5}, {9, 128}, {2, 700}}) {
    std::vector<Values<Half>> in;
    for (int i = 0; i < 7; ++i) in.push_back(drawn_half(rows * width));
    const auto inverse = drawn<float>(rows);
    expect_rounded(post_normed<Half>(in, inverse, rows, width),
                   post_normed<float>(in, inverse, rows, width), "width " + std::to_string(width));
  }
}

}  // namespace
}  // namespace geores::kernels
#endif
