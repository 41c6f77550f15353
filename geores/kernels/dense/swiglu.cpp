#include "geores/kernels/dense/swiglu.h"

#include "geores/kernels/cpu/parallel.h"
#include "geores/kernels/cpu/vector_math.h"

namespace geores::kernels {
namespace {

constexpr int64_t kValuesOfAThread = 4096;

// f(gate, up, count, place of the gate, of the up, of the row's value) for all vectors of some rows.
template <class T, class F>
void for_pairs(const T* parts, int64_t rows, int64_t hidden, F&& f) {
  parallel_ranges(rows, threads_for(rows * hidden, kValuesOfAThread),
                  [&](int64_t begin, int64_t end, int) {
                    for (auto row = begin; row < end; ++row)
                      for_each_vector<T>(hidden, [&](int64_t i, int64_t count) {
                        const auto gate = row * 2 * hidden + i, up = gate + hidden;
                        f(load_up_to(parts + gate, count), load_up_to(parts + up, count), count,
                          gate, up, row * hidden + i);
                      });
                  });
}

template <class T>
Vec<T> sigmoid(const Vec<T>& x) {
  return T(1) / (exponential(-x) + T(1));
}

}  // namespace

template <class A>
void swiglu_forward(const A* parts, A* y, int64_t rows, int64_t hidden) {
  for_pairs(parts, rows, hidden,
            [&](const Vec<A>& gate, const Vec<A>& up, int64_t count, int64_t, int64_t, int64_t at) {
              store_up_to<A>(y + at, gate * sigmoid<A>(gate) * up, count);
            });
}

template <class A>
void swiglu_backward(const A* parts, const A* dy, A* dparts, int64_t rows, int64_t hidden) {
  for_pairs(parts, rows, hidden,
            [&](const Vec<A>& gate, const Vec<A>& up, int64_t count, int64_t to_gate, int64_t to_up,
                int64_t at) {
              const Vec<A> share = sigmoid<A>(gate), d = load_up_to(dy + at, count);
              const Vec<A> slope = share * (A(1) + gate * (A(1) - share));
              store_up_to<A>(dparts + to_gate, d * up * slope, count);
              store_up_to<A>(dparts + to_up, d * gate * share, count);
            });
}

#define GEORES_INSTANTIATE(A)                                   \
  template void swiglu_forward(const A*, A*, int64_t, int64_t); \
  template void swiglu_backward(const A*, const A*, A*, int64_t, int64_t);
GEORES_INSTANTIATE(float)
GEORES_INSTANTIATE(double)
#undef GEORES_INSTANTIATE

}  // namespace geores::kernels
