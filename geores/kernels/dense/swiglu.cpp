#include "geores/kernels/dense/swiglu.h"

#include "geores/kernels/cpu/parallel.h"
#include "geores/kernels/cpu/vector_math.h"

namespace geores::kernels {
namespace {

// f(row) for every row.
template <class F>
void for_rows(int64_t rows, int64_t hidden, F&& f) {
  constexpr int64_t values_of_a_thread = 4096;
  parallel_ranges(rows, threads_for(rows * hidden, values_of_a_thread),
                  [&](int64_t begin, int64_t end, int) {
                    for (auto row = begin; row < end; ++row) f(row);
                  });
}

template <class T>
Vec<T> sigmoid(const Vec<T>& x) {
  return T(1) / (exponential(-x) + T(1));
}

}  // namespace

template <class A>
void swiglu_forward(const A* parts, A* y, int64_t rows, int64_t hidden) {
  for_rows(rows, hidden, [&](int64_t row) {
    const A *gates = parts + row * 2 * hidden, *ups = gates + hidden;
    for_each_vector<A>(hidden, [&](int64_t i, int64_t count) {
      const Vec<A> gate = load_up_to(gates + i, count), up = load_up_to(ups + i, count);
      store_up_to<A>(y + row * hidden + i, gate * sigmoid<A>(gate) * up, count);
    });
  });
}

template <class A>
void swiglu_backward(const A* parts, const A* dy, A* dparts, int64_t rows, int64_t hidden) {
  for_rows(rows, hidden, [&](int64_t row) {
    const A *gates = parts + row * 2 * hidden, *ups = gates + hidden;
    A *dgates = dparts + row * 2 * hidden, *dups = dgates + hidden;
    for_each_vector<A>(hidden, [&](int64_t i, int64_t count) {
      const Vec<A> gate = load_up_to(gates + i, count), up = load_up_to(ups + i, count),
                   d = load_up_to(dy + row * hidden + i, count), share = sigmoid<A>(gate);
      store_up_to<A>(dgates + i, d * up * share * (A(1) + gate * (A(1) - share)), count);
      store_up_to<A>(dups + i, d * gate * share, count);
    });
  });
}

#define GEORES_INSTANTIATE(A)                                   \
  template void swiglu_forward(const A*, A*, int64_t, int64_t); \
  template void swiglu_backward(const A*, const A*, A*, int64_t, int64_t);
GEORES_INSTANTIATE(float)
GEORES_INSTANTIATE(double)
#undef GEORES_INSTANTIATE

}  // namespace geores::kernels
