// The GPU's kernels, emulated (cuda/emulated/cuda_runtime.h), against the CPU's kernels of the same name;
// those without one against their definition and, backward, against differences.
#ifdef GEORES_EMULATED_KERNELS
#include <gtest/gtest.h>

#include "geores/kernels/emulated_check_test.h"
#include "geores/kernels/norms/norm.h"
#include "geores/kernels/pooled/token_summary.h"
#include "geores/kernels/streams/streams.h"
#include "geores/kernels/updates/delta_streams.h"
#include "geores/kernels/updates/gated_update.h"

namespace geores::kernels {
namespace {

template <class T>
Values<T> flat(const std::vector<RowStatistics<T>>& statistics) {
  Values<T> values;
  for (const auto& s : statistics) values.insert(values.end(), {s.mean, s.inverse});
  return values;
}

template <class T>
struct Result {
  Values<T> values;
  std::string name;
};

// Runs f(call, results) where call(kernel, arguments…) calls the CPU's kernel, then the GPU's, and
// compares the results.
template <class T, class F>
void expect_same_results(const std::string& what, F&& f) {
  std::vector<Result<T>> cpu, gpu;
  f([](auto&& kernel, auto&&... arguments) { kernel(arguments...); }, cpu);
  f([](auto&& kernel, auto&&... arguments) { kernel(kStream, arguments...); }, gpu);
  ASSERT_EQ(cpu.size(), gpu.size());
  for (size_t i = 0; i < cpu.size(); ++i)
    expect_close(gpu[i].values, cpu[i].values, what + " " + cpu[i].name);
}

template <class T>
void compare_streams(const StreamShape& s) {
  const auto what = "n " + std::to_string(s.n) + " d " + std::to_string(s.d);
  const auto all = s.tokens * s.n * s.d, width = s.n * s.d, matrices = s.tokens * s.n * s.n;
  const auto x = drawn<T>(all), m = drawn<T>(matrices), weight = drawn<T>(width),
             dg = drawn<T>(all), dh = drawn<T>(all), entropy_gradient = drawn<T>(s.tokens);
  const Norm<T> norm{.weight = weight.data()};
  for (const int64_t operators : {s.tokens, int64_t{1}})
    expect_same_results<T>(what + " mix_norm", [&](auto&& call, auto& results) {
      auto g = zeros<T>(all), h = g, dx = g, dm = zeros<T>(operators * s.n * s.n),
           dweight = zeros<T>(width);
      std::vector<RowStatistics<T>> statistics(static_cast<size_t>(s.tokens));
      call([](auto... a) { mix_norm_forward(a...); }, m.data(), x.data(), norm, g.data(), h.data(),
           statistics.data(), operators, s);
      call([](auto... a) { mix_norm_backward(a...); }, m.data(), x.data(), norm,
           static_cast<const RowStatistics<T>*>(statistics.data()), dg.data(), dh.data(), dx.data(),
           dm.data(), dweight.data(), static_cast<T*>(nullptr), operators, s);
      results = {{g, "g"},   {h, "h"},   {flat(statistics), "statistics"},
                 {dx, "dx"}, {dm, "dm"}, {dweight, "dweight"}};
    });
  expect_same_results<T>(what + " entropy", [&](auto&& call, auto& results) {
    auto entropy = zeros<T>(s.tokens), dx = zeros<T>(all);
    call([](auto... a) { stream_entropy_forward(a...); }, x.data(), entropy.data(), s);
    call([](auto... a) { stream_entropy_backward(a...); }, x.data(), entropy_gradient.data(),
         dx.data(), s);
    results = {{entropy, "entropy"}, {dx, "dx"}};
  });
}

struct NormCase {
  int64_t rows, width;
  NormKind kind;
  bool weighted, biased, branched, skipped;
};

template <class T>
void compare_norms(const NormCase& c) {
  const auto all = c.rows * c.width;
  const auto x = drawn<T>(all), branch = drawn<T>(all), dy = drawn<T>(all), skip = drawn<T>(all),
             weight = drawn<T>(c.width), bias = drawn<T>(c.width);
  const Norm<T> norm{.kind = c.kind,
                     .weight = c.weighted ? weight.data() : nullptr,
                     .bias = c.biased ? bias.data() : nullptr};
  const auto what = "norm of " + std::to_string(c.width) + (sizeof(T) == 8 ? " double" : " float");
  expect_same_results<T>(what, [&](auto&& call, auto& results) {
    auto y = zeros<T>(all), sum = y, dx = y, dbranch = y, dweight = zeros<T>(c.width),
         dbias = dweight;
    std::vector<RowStatistics<T>> statistics(static_cast<size_t>(c.rows));
    call([](auto... a) { norm_forward(a...); }, x.data(), norm, y.data(), statistics.data(), c.rows,
         c.width, c.branched ? branch.data() : nullptr, sum.data());
    call([](auto... a) { norm_backward(a...); }, c.branched ? sum.data() : x.data(),
         static_cast<const RowStatistics<T>*>(statistics.data()), norm, dy.data(),
         c.skipped ? skip.data() : nullptr, dx.data(), c.weighted ? dweight.data() : nullptr,
         c.biased ? dbias.data() : nullptr, c.rows, c.width, c.branched ? dbranch.data() : nullptr);
    if (!c.branched) sum = x;
    results = {{y, "y"},        {sum, "sum"},         {flat(statistics), "statistics"},
               {dx, "dx"},      {dbranch, "dbranch"}, {dweight, "dweight"},
               {dbias, "dbias"}};
  });
}

// Rows of up to 512 values, of up to 768 and of up to 1,024 have kernels of their own.
TEST(Emulated, NormsEqualTheCpus) {
  using enum NormKind;
  for (const auto& c : {NormCase{5, 36, layer, true, true, false, false},
                        {37, 768, layer, true, false, true, true},
                        {9, 516, rms, true, false, false, true},
                        {3, 772, rms, false, false, true, false},
                        {9, 1024, layer, true, false, false, false},
                        {3, 768, layer, true, true, true, true},
                        {3, 517, layer, true, false, true, true}})
    compare_norms<float>(c);
  compare_norms<double>({3, 516, layer, true, true, true, true});
}

TEST(Emulated, MixingAndEntropyOfStreamsEqualTheCpus) {
  for (const auto& s : {StreamShape{3, 2, 5}, StreamShape{9, 4, 8}, StreamShape{2, 4, 36},
                        StreamShape{3, 2, 129}, StreamShape{2, 4, 192}}) {
    compare_streams<double>(s);
    compare_streams<float>(s);
  }
}

template <class T>
void compare_routes(const StreamShape& s) {
  const auto all = s.tokens * s.n * s.d, one = s.tokens * s.d;
  const auto x = drawn<T>(all), res = drawn<T>(s.tokens * s.n * s.n),
             read = drawn<T>(s.tokens * s.n), weight = drawn<T>(s.d), dh = drawn<T>(one),
             y = drawn<T>(one), dout = drawn<T>(all);
  const Norm<T> norm{.weight = weight.data()};
  const auto what = "n " + std::to_string(s.n) + " d " + std::to_string(s.d);
  expect_same_results<T>(what, [&](auto&& call, auto& results) {
    auto h = zeros<T>(one), dy = h, out = zeros<T>(all), dx = out, dread = zeros<T>(s.tokens * s.n),
         dwrite = dread, dres = zeros<T>(s.tokens * s.n * s.n), dweight = zeros<T>(s.d),
         mixed = out;
    std::vector<RowStatistics<T>> statistics(static_cast<size_t>(s.tokens));
    call([](auto... a) { collect_norm_forward(a...); }, read.data(), x.data(), norm, int64_t{1},
         h.data(), statistics.data(), s);
    call([](auto... a) { collect_norm_backward(a...); }, read.data(), x.data(), norm, int64_t{1},
         static_cast<const RowStatistics<T>*>(statistics.data()), dh.data(), dout.data(), dx.data(),
         dread.data(), dweight.data(), s);
    call([](auto... a) { mix_write_forward(a...); }, res.data(), x.data(), read.data(), y.data(),
         Branch::shared, out.data(), s);
    call([](auto... a) { mix_write_backward(a...); }, res.data(), x.data(), read.data(), y.data(),
         Branch::shared, dout.data(), dres.data(), mixed.data(), dwrite.data(), dy.data(), s);
    results = {{h, "h"},     {dx, "dx"},     {dread, "dread"}, {dweight, "dweight"},
               {out, "out"}, {dres, "dres"}, {mixed, "dx"},    {dwrite, "dwrite"},
               {dy, "dy"}};
  });
}

TEST(Emulated, ReadingAndWritingStreamsEqualTheCpus) {
  for (const auto& s : {StreamShape{3, 2, 5}, StreamShape{9, 4, 8}, StreamShape{2, 4, 128}}) {
    compare_routes<double>(s);
    compare_routes<float>(s);
  }
}

template <class T>
void compare_summary(int64_t sequences, int64_t length, const StreamShape& s) {
  const auto width = s.n * s.d, all = s.tokens * width;
  const auto x = drawn<T>(all), branch = drawn<T>(all), dmeans = drawn<T>(all),
             skip = drawn<T>(all);
  auto total = zeros<T>(all), means = total, dx = total, dbranch = total, wanted = total,
       wanted_total = total;
  token_summary_forward(kStream, x.data(), branch.data(), total.data(), means.data(),
                        static_cast<T*>(nullptr), length, s);
  for (int64_t b = 0; b < sequences; ++b)
    for (int64_t c = 0; c < width; ++c) {
      double sum = 0;
      for (int64_t t = 0; t < length; ++t) {
        const auto at = static_cast<size_t>((b * length + t) * width + c);
        wanted_total[at] = x[at] + branch[at];
        sum += static_cast<double>(wanted_total[at]);
        wanted[at] = static_cast<T>(sum / static_cast<double>(t + 1));
      }
    }
  const auto what = "length " + std::to_string(length) + " width " + std::to_string(width);
  expect_close(total, wanted_total, what + " sum");
  expect_close(means, wanted, what + " means");
  token_summary_backward(kStream, x.data(), dmeans.data(), static_cast<T*>(nullptr), skip.data(),
                         dx.data(), dbranch.data(), length, s);
  // The means are linear in x: ⟨means, dmeans⟩ = ⟨x + branch, dx − skip⟩.
  double forward = 0, backward = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    forward += static_cast<double>(means[i]) * static_cast<double>(dmeans[i]);
    backward += static_cast<double>(total[i]) * static_cast<double>(dx[i] - skip[i]);
  }
  EXPECT_NEAR(forward, backward, (sizeof(T) == 8 ? 1e-10 : 1e-2) * (1 + std::abs(forward))) << what;
  expect_close(dbranch, dx, what + " dbranch");
}

TEST(Emulated, RunningMeansOfNarrowAndWideStreamsAreTheirDefinition) {
  for (const int64_t d : {8, 130}) {
    for (const int64_t length : {1, 67}) compare_summary<float>(2, length, {2 * length, 2, d});
    for (const int64_t length : {1, 19}) compare_summary<double>(2, length, {2 * length, 2, d});
  }
}

TEST(Emulated, DeltaRuleHasTheGradientsOfItsDefinition) {
  // The last has tokens that are held in shared memory, a round of a block and a half of them.
  for (const auto& s : {StreamShape{3, 2, 5}, StreamShape{5, 4, 36}, StreamShape{6, 4, 200}}) {
    const auto all = s.tokens * s.n * s.d;
    const auto dout = drawn<double>(all), dread = drawn<double>(s.tokens * s.d);
    // Inputs: X, y, l, the weights of reading. Results: X', then the read output.
    const auto forward = [&](const std::vector<Values<double>>& in) {
      auto out = zeros<double>(all), read = zeros<double>(s.tokens * s.d);
      delta_streams_forward(kStream, in[0].data(), in[1].data(), in[2].data(), out.data(), s);
      stream_sum_forward(kStream, in[3].data(), in[0].data(), read.data(), s);
      return std::pair(out, read);
    };
    const std::vector<Values<double>> in = {drawn<double>(all), drawn<double>(s.tokens * s.d),
                                            drawn<double>(s.tokens * (1 + s.n)),
                                            drawn<double>(s.n)};
    auto wanted = in[0], wanted_read = zeros<double>(s.tokens * s.d);
    for (int64_t t = 0; t < s.tokens; ++t) {
      const auto *y = in[1].data() + t * s.d, *l = in[2].data() + t * (1 + s.n);
      double length = 0;
      for (int64_t c = 0; c < s.d; ++c) length += y[c] * y[c];
      length = std::sqrt(length);
      for (int64_t j = 0; j < s.n; ++j) {
        auto* row = wanted.data() + (t * s.n + j) * s.d;
        double along = 0;
        for (int64_t c = 0; c < s.d; ++c) {
          along += y[c] / length * row[c];
          wanted_read[static_cast<size_t>(t * s.d + c)] += in[3][static_cast<size_t>(j)] * row[c];
        }
        const auto step = 2 / (1 + std::exp(-l[0])) * (l[1 + j] - along);
        for (int64_t c = 0; c < s.d; ++c) row[c] += step * y[c] / length;
      }
    }
    const auto [out, read] = forward(in);
    expect_close(out, wanted, "delta rule");
    expect_close(read, wanted_read, "the read output");
    auto gradients = in;
    std::fill(gradients[3].begin(), gradients[3].end(), 0.0);
    delta_streams_backward(kStream, in[0].data(), in[1].data(), in[2].data(), dout.data(),
                           gradients[1].data(), gradients[2].data(), s);
    stream_sum_backward<double, double>(kStream,
                                        {.weight = in[3].data(),
                                         .x = in[0].data(),
                                         .dread = dread.data(),
                                         .dout = dout.data(),
                                         .y = in[1].data(),
                                         .dl = gradients[2].data(),
                                         .dx = gradients[0].data(),
                                         .dweight = gradients[3].data()},
                                        s);
    expect_slope(
        in, gradients,
        [&](const auto& at) {
          const auto [results, sums] = forward(at);
          return inner(results, dout) + inner(sums, dread);
        },
        "delta rule");
  }
}

TEST(Emulated, GatedUpdateHasTheGradientsOfItsValues) {
  for (const int64_t width : {7, 36}) {
    constexpr int64_t kRows = 5;
    const auto all = kRows * width;
    const auto dout = drawn<double>(all);
    // Inputs: x, v, [gate | beta], the norm's weight, bias, α.
    const std::vector<Values<double>> in = {drawn<double>(all),     drawn<double>(all),
                                            drawn<double>(2 * all), drawn<double>(width),
                                            drawn<double>(width),   drawn<double>(1)};
    std::vector<RowStatistics<double>> statistics(kRows);
    const auto update = [&](const std::vector<Values<double>>& at) {
      return GatedUpdate<double, double>{.x = at[0].data(),
                                         .v = at[1].data(),
                                         .gate = at[2].data(),
                                         .beta = at[2].data() + width,
                                         .stride = 2 * width,
                                         .norm = {.weight = at[3].data()},
                                         .bias = at[4].data(),
                                         .alpha = at[5].data(),
                                         .scale = 0.7,
                                         .offset = 0.2,
                                         .rows = kRows,
                                         .width = width};
    };
    const auto forward = [&](const std::vector<Values<double>>& at) {
      auto out = zeros<double>(all);
      gated_update_forward(kStream, update(at), out.data(), statistics.data());
      return out;
    };
    forward(in);
    auto gradients = in;
    for (auto& gradient : gradients) std::fill(gradient.begin(), gradient.end(), 0.0);
    gated_update_backward<double, double>(kStream, update(in), statistics.data(), dout.data(),
                                          {.x = gradients[0].data(),
                                           .v = gradients[1].data(),
                                           .gate = gradients[2].data(),
                                           .beta = gradients[2].data() + width,
                                           .weight = gradients[3].data(),
                                           .bias = gradients[4].data(),
                                           .alpha = gradients[5].data()});
    expect_slope(
        in, gradients, [&](const auto& at) { return inner(forward(at), dout); },
        "width " + std::to_string(width));
  }
}

}  // namespace
}  // namespace geores::kernels
#endif
