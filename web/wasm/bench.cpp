// Products of operators: the film strip of the first screen, and the bench of the section `streams`.
#include "web/wasm/operators.h"

using namespace geores::manifold;
using namespace geores::web;

// ---- the film strip: what layer after layer does to a picture in the plane of two streams ----

namespace {

constexpr int kRows = 5;
constexpr int kFrames = 8;
constexpr int kFrameLayers[kFrames] = {0, 1, 2, 4, 8, 16, 32, 48};

struct Film {
  double gamma, branch;
  bool initial;
  double seed;
};

Square film_operator(const Film& how, int row, int layer) {
  auto random = stream_of(static_cast<unsigned long long>(how.seed), row, layer);
  constexpr int n = 2;
  switch (row) {
    case 1:
    case 2: {
      const double gamma = row == 1 ? 1 : how.gamma;
      if (how.initial) return hybrid_at_start(random, n, gamma);
      const auto u = seeded_row(random, n), v = seeded_row(random, n), k = seeded_row(random, n);
      return hybrid(u, v, k, 1, gamma);
    }
    case 3:
      return erasing(seeded_row(random, n), 1);
    case 4:
      return how.initial ? sinkhorn_at_start(n)
                         : doubly_stochastic(seeded_block(random, n, 1), n, 20);
    default:
      return identity<double, kMostStreams>();
  }
}

}  // namespace

#define FILM_FIELDS(IN, OUT) \
  IN(gamma, 1) IN(branch, 1) IN(initial, 1) IN(seed, 1) OUT(layers, 8) OUT(frames, 160)

// The products after each of the layers, row by row of the film. The branch is a random linear map whose
// entries have the deviation `branch`, the same one for all rows.
GEORES_EXPORT(film, FILM_FIELDS) {
  const Film how{film.gamma, film.branch, film.initial != 0, film.seed};
  for (int row = 0; row < kRows; ++row) {
    auto product = identity<double, kMostStreams>();
    for (int layer = 0, frame = 0; frame < kFrames; ++layer) {
      if (layer > 0) {
        auto branch = stream_of(static_cast<unsigned long long>(how.seed), 300, layer);
        product = (film_operator(how, row, layer) + seeded_block(branch, 2, how.branch)) * product;
      }
      if (layer != kFrameLayers[frame]) continue;
      film.layers[frame] = layer;
      pack_block(product, 2, film.frames.at + 4 * (kFrames * row + frame));
      ++frame;
    }
  }
}

// ---- bench: one operator, or a product of many ----

namespace {

enum class Connection {
  edelta,
  ddl,
  hc,
  mhc,
  mhc_lite,
  shc,
  jpmhc,
  jpmhc_exact,
  jpmhc_sinkhorn,
  jpmhc_permutation,
  jpmhc_grassmann
};

struct Bench {
  Connection connection;
  int n;
  double scale;
  bool initial;
  unsigned long long seed;
  int iterations;
  const double* trained;  // kSublayers matrices of four streams, or null
};

Square sinkhorn_of(const Bench& how, SplitMix64& random) {
  return how.initial
             ? sinkhorn_at_start(how.n, how.iterations)
             : doubly_stochastic(seeded_block(random, how.n, how.scale), how.n, how.iterations);
}

// Logits of `count` permutations, the first one the identity's.
void fill_logits(const Bench& how, SplitMix64& random, double* logits, int count) {
  for (int m = 0; m < count; ++m)
    logits[m] = how.initial ? (m == 0 ? 0 : -8) : how.scale * random.normal();
}

Square permutations_of(const Bench& how, SplitMix64& random) {
  return for_streams(how.n, [&]<int N>() {
    double logits[JpmhcPermutations<N>::count];
    fill_logits(how, random, logits, JpmhcPermutations<N>::count);
    return mixture<N>(logits, JpmhcPermutations<N>(how.seed));
  });
}

Square all_permutations_of(const Bench& how, SplitMix64& random) {
  if (how.n > 6) stop("[mhc_lite] at most 6 streams: 7 have 5040 permutations");
  return for_streams(how.n, [&]<int N>() {
    constexpr int kept = N <= 6 ? N : 6;
    static double logits[factorial(kept)];
    fill_logits(how, random, logits, factorial(kept));
    return mixture<kept>(logits, AllPermutations<kept>());
  });
}

Square layer_of(const Bench& how, int layer) {
  if (how.trained != nullptr) return trained_mixer(how.trained, layer + 1);
  auto random = stream_of(how.seed, static_cast<int>(how.connection), layer);
  const int n = how.n;
  const double scale = how.initial ? kWeightsAtStart : how.scale;
  switch (how.connection) {
    case Connection::edelta: {
      if (how.initial) return hybrid_at_start(random, n, kGateAtStart);
      const auto u = seeded_row(random, n), v = seeded_row(random, n), k = seeded_row(random, n);
      const double b = how.scale * random.normal(), gate = how.scale * random.normal();
      return hybrid(how.scale * u, how.scale * v, k, logarithm(1 + exponential(b)),
                    gate_value(gate));
    }
    case Connection::ddl: {
      const auto k = seeded_row(random, n);
      return erasing(k, 2 * gate_value(how.initial ? 0 : how.scale * random.normal()));
    }
    case Connection::hc:
      return identity<double, kMostStreams>() +
             seeded_block(random, n, how.initial ? 0 : 0.1 * how.scale);
    case Connection::mhc:
    case Connection::jpmhc_sinkhorn:
      return sinkhorn_of(how, random);
    case Connection::mhc_lite:
      return all_permutations_of(how, random);
    case Connection::shc: {
      if (how.initial) return sphere_at_start(n);
      const auto u = seeded_block(random, n, scale), v = seeded_block(random, n, scale);
      return sphere(u, v, scale * seeded_row(random, n), n);
    }
    case Connection::jpmhc:
      return fixed_point_rotation(seeded_block(random, n, scale));
    case Connection::jpmhc_exact:
      return exact_rotation(seeded_block(random, n, scale));
    case Connection::jpmhc_permutation:
      return permutations_of(how, random);
    case Connection::jpmhc_grassmann:
      return projector(seeded_block(random, n, 1), n);
  }
  return {};
}

}  // namespace

#define BENCH_FIELDS(IN, OUT) \
  IN(connection, 1)           \
  IN(n, 1)                    \
  IN(scale, 1)                \
  IN(initial, 1)              \
  IN(seed, 1)                 \
  IN(iterations, 1)           \
  IN(layers, 1)               \
  IN(given, 1)                \
  IN(trained, 384)            \
  OUT(h, 64)                  \
  OUT(row_sums, 8)            \
  OUT(column_sums, 8)         \
  OUT(sigma, 8)               \
  OUT(re, 8)                  \
  OUT(im, 8)                  \
  OUT(det, 1) OUT(defect, 1) OUT(sigma_course, 768) OUT(re_course, 768) OUT(im_course, 768)

GEORES_EXPORT(bench, BENCH_FIELDS) {
  const Bench how{static_cast<Connection>(static_cast<int>(bench.connection)),
                  bench.given != 0 ? kStreams : static_cast<int>(clamp(bench.n.value, 2.0, 8.0)),
                  bench.scale,
                  bench.initial != 0,
                  static_cast<unsigned long long>(bench.seed.value),
                  static_cast<int>(bench.iterations),
                  bench.given != 0 ? bench.trained.at : nullptr};
  const int n = how.n, layers = static_cast<int>(clamp(bench.layers.value, 1.0, 96.0));
  double* outputs = bench.h.at;
  for (int i = 0; i < bench_size() - 392; ++i) outputs[i] = 0;

  auto product = block(identity<double, kMostStreams>(), n, 0);
  for (int l = 0; l < layers; ++l) {
    product = block(layer_of(how, l), n, 0) * product;
    const auto sigma = singular_values(product);
    const auto values = eigenvalues_of(product, n);
    for (int i = 0; i < n; ++i) {
      bench.sigma[i] = bench.sigma_course[kMostStreams * l + i] = sigma[i];
      bench.re[i] = bench.re_course[kMostStreams * l + i] = values.re[i];
      bench.im[i] = bench.im_course[kMostStreams * l + i] = values.im[i];
    }
  }
  pack_block(product, n, bench.h.at);
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j) {
      bench.row_sums[i] += product(i, j);
      bench.column_sums[j] += product(i, j);
    }
  bench.det = determinant_of(product, n);
  bench.defect = largest_entry(gram_defect(product, n));
}
