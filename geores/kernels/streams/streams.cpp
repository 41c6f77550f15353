#include "geores/kernels/streams/streams.h"

#include "geores/kernels/cpu/parallel.h"
#include "geores/kernels/routed/routed_passes.h"
#include "geores/kernels/streams/stream_rows.h"

namespace geores::kernels {
namespace {

// For token t: dwrite_i = ⟨dout_i, b_i⟩ and db_i = write_i dout_i; for a shared branch db is their
// sum.
template <int N, class T>
void write_gradient(Streams<N> streams, const T* write, const T* branch, Branch kind, const T* dout,
                    T* dwrite, T* dbranch, int64_t t, int64_t d) {
  const auto n = streams.count();
  const bool shared = kind == Branch::shared;
  for (int64_t i = 0; i < n; ++i) {
    const T* dout_row = dout + (t * n + i) * d;
    const auto at_branch = shared ? t * d : (t * n + i) * d;
    dwrite[t * n + i] = inner_product(dout_row, branch + at_branch, d);
    if (shared) continue;
    const T share = write[t * n + i];
    for_each_vector<T>(d, [&](int64_t at, int64_t count) {
      store_up_to(dbranch + at_branch + at, share * load_up_to(dout_row + at, count), count);
    });
  }
  if (shared) collect(streams, write + t * n, dout + t * n * d, dbranch + t * d, d);
}

struct MixSpace;
struct CollectSpace;
struct EntropySpace;

}  // namespace

template <class T>
void mix_norm_forward(const T* m, const T* x, const Norm<T>& norm, T* g, T* h,
                      RowStatistics<T>* statistics, int64_t operators, const StreamShape& s) {
  const auto width = s.n * s.d, run = s.tokens / operators;
  with_streams(s.n, [&](auto streams) {
    parallel_ranges(s.tokens, threads_for(s.tokens, 32), [&](int64_t begin, int64_t end, int) {
      for (auto t = begin; t < end; ++t) {
        T* row = g + t * width;
        apply_operator<false>(streams, m + t / run * s.n * s.n, x + t * width, row, s.d);
        if (!h) continue;
        const auto statistic = row_statistics(row, width, norm);
        normalize_row(row, statistic, norm, h + t * width, width);
        if (statistics) statistics[t] = statistic;
      }
    });
  });
}

template <class T>
void mix_norm_backward(const T* m, const T* x, const Norm<T>& norm,
                       const RowStatistics<T>* statistics, const T* dg, const T* dh, T* dx, T* dm,
                       T* dweight, T* dbias, int64_t operators, const StreamShape& s) {
  const auto width = s.n * s.d, run = s.tokens / operators, size = s.n * s.n;
  const int threads = threads_for(operators, run > 1 ? 1 : 32);
  PartialSums<T> partial(threads, 2 * width);
  with_streams(s.n, [&](auto streams) {
    parallel_ranges(operators, threads, [&](int64_t begin, int64_t end, int thread) {
      T* g = scratch<MixSpace, T>(2 * width);
      T* dtotal = g + width;  // gradient of g: dg plus the part through the norm
      for (auto o = begin; o < end; ++o) {
        const T* matrix = m + o * size;
        std::fill_n(dm + o * size, size, T(0));
        for (auto t = o * run; t < (o + 1) * run; ++t) {
          if (dg) std::copy_n(dg + t * width, width, dtotal);
          if (dh) {
            apply_operator<false>(streams, matrix, x + t * width, g, s.d);
            normalize_row_backward<T>(g, statistics[t], norm, dh + t * width, dg != nullptr, dtotal,
                                      dweight ? partial.of(thread) : nullptr,
                                      dbias ? partial.of(thread) + width : nullptr, width);
          }
          apply_operator<true>(streams, matrix, dtotal, dx + t * width, s.d);
          add_inner_products(streams, dtotal, x + t * width, dm + o * size, s.d);
        }
      }
    });
  });
  if (dweight) partial.add_to(dweight, 0, width);
  if (dbias) partial.add_to(dbias, width, width);
}

template <class T>
void collect_norm_forward(const T* read, const T* x, const Norm<T>& norm, int64_t tiles, T* h,
                          RowStatistics<T>* statistics, const StreamShape& s) {
  with_streams(s.n, [&](auto streams) {
    parallel_ranges(s.tokens, threads_for(s.tokens, 32), [&](int64_t begin, int64_t end, int) {
      T* c = scratch<CollectSpace, T>(s.d);
      for (auto t = begin; t < end; ++t) {
        collect(streams, read + t * s.n, x + t * s.n * s.d, c, s.d);
        const auto statistic = row_statistics(c, s.d, norm);  // the same for every tile
        for (int64_t tile = 0; tile < tiles; ++tile) {
          auto here = norm;
          if (here.weight) here.weight += tile * s.d;
          normalize_row(c, statistic, here, h + (t * tiles + tile) * s.d, s.d);
        }
        if (statistics) statistics[t] = statistic;
      }
    });
  });
}

template <class T>
void collect_norm_backward(const T* read, const T* x, const Norm<T>& norm, int64_t tiles,
                           const RowStatistics<T>* statistics, const T* dh, const T* skip, T* dx,
                           T* dread, T* dweight, const StreamShape& s) {
  const int threads = threads_for(s.tokens, 32);
  PartialSums<T> partial(threads, tiles * s.d);
  with_streams(s.n, [&](auto streams) {
    parallel_ranges(s.tokens, threads, [&](int64_t begin, int64_t end, int thread) {
      T* dc = scratch<CollectSpace, T>(2 * s.d);
      for (auto t = begin; t < end; ++t) {
        collect_norm_gradient(streams, read + t * s.n, x + t * s.n * s.d, norm, tiles,
                              statistics[t], dh + t * tiles * s.d, dc, partial.of(thread), dc + s.d,
                              s.d);
        for (int64_t j = 0; j < s.n; ++j) {
          const auto stream = (t * s.n + j) * s.d;
          const T share = read[t * s.n + j];
          dread[t * s.n + j] = inner_product(x + stream, dc, s.d);
          for_each_vector<T>(s.d, [&](int64_t at, int64_t count) {
            Vec<T> gradient = share * load_up_to(dc + at, count);
            if (skip) gradient += load_up_to(skip + stream + at, count);
            store_up_to(dx + stream + at, gradient, count);
          });
        }
      }
    });
  });
  if (dweight) partial.add_to(dweight, 0, tiles * s.d);
}

template <class T>
void collect_forward(const T* read, const T* x, T* c, const StreamShape& s) {
  with_streams(s.n, [&](auto streams) {
    parallel_ranges(s.tokens, threads_for(s.tokens, 32), [&](int64_t begin, int64_t end, int) {
      for (auto t = begin; t < end; ++t)
        collect(streams, read + t * s.n, x + t * s.n * s.d, c + t * s.d, s.d);
    });
  });
}

template <class T>
void collect_backward(const T* read, const T* x, const T* dc, T* dread, T* dx,
                      const StreamShape& s) {
  parallel_ranges(s.tokens, threads_for(s.tokens, 32), [&](int64_t begin, int64_t end, int) {
    for (auto row = begin * s.n; row < end * s.n; ++row) {
      const T* dtoken = dc + row / s.n * s.d;
      dread[row] = inner_product(dtoken, x + row * s.d, s.d);
      for_each_vector<T>(s.d, [&](int64_t at, int64_t count) {
        store_up_to(dx + row * s.d + at, read[row] * load_up_to(dtoken + at, count), count);
      });
    }
  });
}

template <class T>
void mix_write_forward(const T* res, const T* x, const T* write, const T* branch, Branch kind,
                       T* out, const StreamShape& s) {
  const auto width = s.n * s.d, step = kind == Branch::shared ? int64_t{0} : s.d;
  const auto branch_width = kind == Branch::shared ? s.d : width;
  with_streams(s.n, [&](auto streams) {
    parallel_ranges(s.tokens, threads_for(s.tokens, 32), [&](int64_t begin, int64_t end, int) {
      for (auto t = begin; t < end; ++t) {
        apply_operator<false, true>(streams, res + t * s.n * s.n, x + t * width, write + t * s.n,
                                    branch + t * branch_width, step, out + t * width, s.d);
      }
    });
  });
}

template <class T>
void mix_write_backward(const T* res, const T* x, const T* write, const T* branch, Branch kind,
                        const T* dout, T* dres, T* dx, T* dwrite, T* dbranch,
                        const StreamShape& s) {
  const auto width = s.n * s.d, size = s.n * s.n;
  with_streams(s.n, [&](auto streams) {
    parallel_ranges(s.tokens, threads_for(s.tokens, 32), [&](int64_t begin, int64_t end, int) {
      for (auto t = begin; t < end; ++t) {
        const T* dout_row = dout + t * width;
        std::fill_n(dres + t * size, size, T(0));
        add_inner_products(streams, dout_row, x + t * width, dres + t * size, s.d);
        apply_operator<true>(streams, res + t * size, dout_row, dx + t * width, s.d);
        write_gradient(streams, write, branch, kind, dout, dwrite, dbranch, t, s.d);
      }
    });
  });
}

template <class T>
void write_backward(const T* write, const T* branch, Branch kind, const T* dout, T* dwrite,
                    T* dbranch, const StreamShape& s) {
  with_streams(s.n, [&](auto streams) {
    parallel_ranges(s.tokens, threads_for(s.tokens, 32), [&](int64_t begin, int64_t end, int) {
      for (auto t = begin; t < end; ++t)
        write_gradient(streams, write, branch, kind, dout, dwrite, dbranch, t, s.d);
    });
  });
}

namespace {

constexpr double kEntropyGuard = 1e-8;

// ‖XXᵀ‖²_F, tr(XXᵀ) and XXᵀ itself.
template <int N, class T>
void gram(Streams<N> streams, const T* x, int64_t d, T* matrix, T& squares, T& trace) {
  const auto n = streams.count();
  std::fill_n(matrix, n * n, T(0));
  add_inner_products(streams, x, x, matrix, d);
  squares = trace = 0;
  for (int64_t i = 0; i < n; ++i) {
    trace += matrix[i * n + i];
    for (int64_t j = 0; j < n; ++j) squares += matrix[i * n + j] * matrix[i * n + j];
  }
}

}  // namespace

template <class T>
void stream_entropy_forward(const T* x, T* entropy, const StreamShape& s) {
  with_streams(s.n, [&](auto streams) {
    parallel_ranges(s.tokens, threads_for(s.tokens, 32), [&](int64_t begin, int64_t end, int) {
      T matrix[kMostStreams * kMostStreams], squares, trace;
      for (auto t = begin; t < end; ++t) {
        gram(streams, x + t * s.n * s.d, s.d, matrix, squares, trace);
        entropy[t] = T(1) - squares / (trace * trace + T(kEntropyGuard));
      }
    });
  });
}

// With C = XXᵀ, q = ‖C‖²_F, r = tr C and e = 1 − q/(r² + ε):
//   dX = −4/(r² + ε) · (C − q r/(r² + ε) I) X · de
template <class T>
void stream_entropy_backward(const T* x, const T* dentropy, T* dx, const StreamShape& s) {
  with_streams(s.n, [&](auto streams) {
    parallel_ranges(s.tokens, threads_for(s.tokens, 32), [&](int64_t begin, int64_t end, int) {
      T matrix[kMostStreams * kMostStreams], squares, trace;
      for (auto t = begin; t < end; ++t) {
        gram(streams, x + t * s.n * s.d, s.d, matrix, squares, trace);
        const T bottom = trace * trace + T(kEntropyGuard);
        for (int64_t i = 0; i < s.n; ++i) matrix[i * s.n + i] -= squares * trace / bottom;
        const T factor = T(-4) / bottom * dentropy[t];
        for (int64_t i = 0; i < s.n * s.n; ++i) matrix[i] *= factor;
        apply_operator<false>(streams, matrix, x + t * s.n * s.d, dx + t * s.n * s.d, s.d);
      }
    });
  });
}

#define GEORES_INSTANTIATE(T)                                                                     \
  template void mix_norm_forward(const T*, const T*, const Norm<T>&, T*, T*, RowStatistics<T>*,   \
                                 int64_t, const StreamShape&);                                    \
  template void mix_norm_backward(const T*, const T*, const Norm<T>&, const RowStatistics<T>*,    \
                                  const T*, const T*, T*, T*, T*, T*, int64_t,                    \
                                  const StreamShape&);                                            \
  template void collect_norm_forward(const T*, const T*, const Norm<T>&, int64_t, T*,             \
                                     RowStatistics<T>*, const StreamShape&);                      \
  template void collect_norm_backward(const T*, const T*, const Norm<T>&, int64_t,                \
                                      const RowStatistics<T>*, const T*, const T*, T*, T*, T*,    \
                                      const StreamShape&);                                        \
  template void collect_forward(const T*, const T*, T*, const StreamShape&);                      \
  template void collect_backward(const T*, const T*, const T*, T*, T*, const StreamShape&);       \
  template void mix_write_forward(const T*, const T*, const T*, const T*, Branch, T*,             \
                                  const StreamShape&);                                            \
  template void mix_write_backward(const T*, const T*, const T*, const T*, Branch, const T*, T*,  \
                                   T*, T*, T*, const StreamShape&);                               \
  template void write_backward(const T*, const T*, Branch, const T*, T*, T*, const StreamShape&); \
  template void stream_entropy_forward(const T*, T*, const StreamShape&);                         \
  template void stream_entropy_backward(const T*, const T*, T*, const StreamShape&);
GEORES_INSTANTIATE(float)
GEORES_INSTANTIATE(double)
#undef GEORES_INSTANTIATE

}  // namespace geores::kernels
