// DDL's reading of a token on the GPU, emulated, against its definition.
#ifdef GEORES_EMULATED_KERNELS
#include <gtest/gtest.h>

#include "geores/kernels/emulated_check_test.h"
#include "geores/kernels/updates/delta_read.h"

namespace geores::kernels {
namespace {

using Doubles = Values<double>;
// x, weight, norm weight, β, its bias, V, its bias
using Inputs = std::vector<Doubles>;

DeltaReadParameters<const double> parameters_in(const Inputs& i) {
  return {i[1].data(), i[2].data(), i[3].data(), i[4].data(), i[5].data(), i[6].data()};
}

Inputs inputs_of(const StreamShape& s) {
  return {drawn<double>(s.tokens * s.n * s.d),
          drawn<double>(s.n),
          drawn<double>(s.d),
          drawn<double>(s.d),
          drawn<double>(1),
          drawn<double>(s.n * s.d),
          drawn<double>(s.n)};
}

struct Read {
  Doubles h, l;
};
Read defined(const Inputs& in, const StreamShape& s) {
  Read read;
  const auto n = static_cast<size_t>(s.n), d = static_cast<size_t>(s.d);
  for (size_t t = 0; t < static_cast<size_t>(s.tokens); ++t) {
    Doubles c(d, 0), l(1 + n, 0);
    for (size_t j = 0; j < n; ++j)
      for (size_t i = 0; i < d; ++i) c[i] += in[1][j] * in[0][(t * n + j) * d + i];
    double mean = 0, squares = 0;
    for (const auto value : c) mean += value / double(d);
    for (const auto value : c) squares += std::pow(value - mean, 2) / double(d);
    for (size_t i = 0; i < d; ++i) {
      read.h.push_back((c[i] - mean) / std::sqrt(squares + 1e-5) * in[2][i]);
      l[0] += in[3][i] * c[i];
      for (size_t j = 0; j < n; ++j) l[1 + j] += in[5][j * d + i] * c[i];
    }
    l[0] += in[4][0];
    for (size_t j = 0; j < n; ++j) l[1 + j] += in[6][j];
    read.l.insert(read.l.end(), l.begin(), l.end());
  }
  return read;
}

// Of the delta rule's write, with y and dv fixed, only the component erased along y depends on x.
void compare_delta_read(const StreamShape& s, bool written) {
  const auto what =
      "n " + std::to_string(s.n) + " d " + std::to_string(s.d) + (written ? "" : " not written");
  const auto in = inputs_of(s);
  const auto dh = drawn<double>(s.tokens * s.d), dl = drawn<double>(s.tokens * (1 + s.n)),
             dout = drawn<double>(s.tokens * s.n * s.d), y = drawn<double>(s.tokens * s.d),
             dv = drawn<double>(s.tokens * (1 + s.n));
  Doubles h(dh.size(), NAN), l(dl.size(), NAN);
  Values<RowStatistics<double>> statistics(static_cast<size_t>(s.tokens));
  delta_read_forward<double, double>(kStream, parameters_in(in), in[0].data(), h.data(),
                                     statistics.data(), l.data(), s);
  const auto wanted = defined(in, s);
  expect_close(h, wanted.h, what + " h");
  expect_close(l, wanted.l, what + " l");

  auto gradients = in;
  for (auto& gradient : gradients) std::fill(gradient.begin(), gradient.end(), 0);
  std::fill(gradients[0].begin(), gradients[0].end(), NAN);
  delta_read_backward<double, double>(
      kStream,
      {.parameters = parameters_in(in),
       .x = in[0].data(),
       .statistics = statistics.data(),
       .h = h.data(),
       .dh = dh.data(),
       .dl = dl.data(),
       .dout = written ? dout.data() : nullptr,
       .y = written ? y.data() : nullptr,
       .dv = written ? dv.data() : nullptr,
       .dx = gradients[0].data(),
       .gradients = {gradients[1].data(), gradients[2].data(), gradients[3].data(),
                     gradients[4].data(), gradients[5].data(), gradients[6].data()}},
      s);
  auto carried = written ? dout : Doubles(dout.size(), 0);
  const auto n = static_cast<size_t>(s.n), d = static_cast<size_t>(s.d);
  for (size_t t = 0; written && t < static_cast<size_t>(s.tokens); ++t) {
    double squares = 0;
    for (size_t i = 0; i < d; ++i) squares += y[t * d + i] * y[t * d + i];
    for (size_t j = 0; j < n; ++j)
      for (size_t i = 0; i < d; ++i)
        carried[(t * n + j) * d + i] -= dv[t * (1 + n) + 1 + j] * y[t * d + i] / std::sqrt(squares);
  }
  expect_slope(
      in, gradients,
      [&](const Inputs& at) {
        const auto read = defined(at, s);
        return inner(read.h, dh) + inner(read.l, dl) + inner(at[0], carried);
      },
      what);
}

// Streams narrower than a warp, several teams in a block, and teams of several warps.
TEST(Emulated, DeltaReadIsItsDefinition) {
  compare_delta_read({5, 2, 3}, true);
  compare_delta_read({37, 4, 20}, true);
  compare_delta_read({9, 3, 70}, true);
  compare_delta_read({6, 4, 129}, true);
  compare_delta_read({3, 8, 33}, false);
}

// Four columns in a thread, as floats have it, against doubles.
TEST(Emulated, DeltaReadOfFloatsIsThatOfDoubles) {
  for (const auto& s : {StreamShape{21, 4, 128}, StreamShape{7, 4, 260}}) {
    const auto in = inputs_of(s);
    const auto dh = drawn<double>(s.tokens * s.d), dl = drawn<double>(s.tokens * (1 + s.n)),
               dout = drawn<double>(s.tokens * s.n * s.d), y = drawn<double>(s.tokens * s.d);
    const auto run = [&]<class T>(T) {
      std::vector<Values<T>> typed, gradients;
      for (const auto& values : in) {
        typed.emplace_back(values.begin(), values.end());
        gradients.push_back(zeros<T>(static_cast<int64_t>(values.size())));
      }
      const auto as = [](const Doubles& values) { return Values<T>(values.begin(), values.end()); };
      const auto dh_t = as(dh), dl_t = as(dl), dout_t = as(dout), y_t = as(y);
      Values<T> h(dh.size()), l(dl.size());
      Values<RowStatistics<T>> statistics(static_cast<size_t>(s.tokens));
      const DeltaReadParameters<const T> p{typed[1].data(), typed[2].data(), typed[3].data(),
                                           typed[4].data(), typed[5].data(), typed[6].data()};
      delta_read_forward<T, T>(kStream, p, typed[0].data(), h.data(), statistics.data(), l.data(),
                               s);
      delta_read_backward<T, T>(kStream,
                                {p,
                                 typed[0].data(),
                                 statistics.data(),
                                 h.data(),
                                 dh_t.data(),
                                 dl_t.data(),
                                 dout_t.data(),
                                 y_t.data(),
                                 dl_t.data(),
                                 gradients[0].data(),
                                 {gradients[1].data(), gradients[2].data(), gradients[3].data(),
                                  gradients[4].data(), gradients[5].data(), gradients[6].data()}},
                                s);
      gradients.push_back(h), gradients.push_back(l);
      return gradients;
    };
    const auto is = run(float());
    const auto wanted = [&] {
      std::vector<Values<float>> all;
      for (const auto& values : run(double())) all.emplace_back(values.begin(), values.end());
      return all;
    }();
    for (size_t i = 0; i < is.size(); ++i)
      expect_close(is[i], wanted[i], "d " + std::to_string(s.d) + " " + std::to_string(i));
  }
}

}  // namespace
}  // namespace geores::kernels
#endif
