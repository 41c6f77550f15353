#include "geores/kernels/dense/linear.h"

#include <type_traits>

#include "geores/kernels/cpu/parallel.h"
#include "geores/kernels/cpu/product.h"
#include "geores/kernels/cpu/vector_math.h"

namespace geores::kernels {
namespace {

constexpr auto kNo = Transposed::no, kYes = Transposed::yes;
// Rows of a block: about a hundred rows of a few hundred values fill half of a core's second-level
// cache.
constexpr int64_t kBlock = 120;
// With so few rows a product reads each weight for next to no arithmetic: nothing is packed.
constexpr int64_t kFewRows = 4;
constexpr int64_t kWeightsOfAThread = 1 << 15;

struct WeightSpace;

// Memory for packed weights.
template <class T, class P>
auto* weight_buffer(int64_t size) {
  return scratch<WeightSpace, typename RightHandSide<T, P>::Packed>(size);
}

// f(first row, rows) for the blocks of begin..end.
template <class F>
void for_each_block(int64_t begin, int64_t end, F&& f) {
  for (auto row = begin; row < end; row += kBlock) f(row, std::min(kBlock, end - row));
}

template <class T>
void gelu_of(const T* x, T* y, int64_t size) {
  for_each_vector<T>(size, [&](int64_t i, int64_t count) {
    store_up_to(y + i, gelu(load_up_to(x + i, count)).value, count);
  });
}

// A token at a time: memory decides, so the threads share the weights, not the rows.
template <class T>
void linear_of_few_rows(const T* x, const T* w, const T* bias, T* y, int64_t rows, int64_t in,
                        int64_t out) {
  parallel_ranges(
      out, threads_for(in * out, kWeightsOfAThread), [&](int64_t begin, int64_t end, int) {
        for (auto column = begin; column < end; ++column)
          for (int64_t row = 0; row < rows; ++row)
            y[row * out + column] =
                inner_product(x + row * in, w + column * in, in) + (bias ? bias[column] : T(0));
      });
}

template <class T>
void perceptron_of_few_rows(const T* x, const T* w1, const T* w2, T* hidden, T* y,
                            const PerceptronShape& s) {
  T* active = scratch<PerceptronShape, T>(s.rows * s.hidden);
  T* before = hidden ? hidden : active;
  linear_of_few_rows<T>(x, w1, nullptr, before, s.rows, s.in, s.hidden);
  gelu_of(before, active, s.rows * s.hidden);
  linear_of_few_rows<T>(active, w2, nullptr, y, s.rows, s.hidden, s.out);
}

}  // namespace

template <class T, class P>
void linear_forward(const T* x, const T* w, const T* bias, T* y, int64_t rows, int64_t in,
                    int64_t out) {
  if constexpr (std::is_same_v<T, P>)
    if (rows <= kFewRows) return linear_of_few_rows(x, w, bias, y, rows, in, out);
  const SerialBlas serial;
  parallel_ranges(rows, threads_for(rows, 16), [&](int64_t begin, int64_t end, int) {
    const auto size = RightHandSide<T, P>::packed_size(in, out);
    const RightHandSide<T, P> weights(kYes, w, in, in, out, end - begin, weight_buffer<T, P>(size));
    for_each_block(begin, end, [&](int64_t row, int64_t count) {
      if (bias)
        for (int64_t i = row; i < row + count; ++i) std::copy_n(bias, out, y + i * out);
      weights.multiply(x + row * in, in, bias != nullptr, y + row * out, out, count);
    });
  });
}

template <class T, class P>
void linear_backward(const T* x, const T* w, const T* dy, T* dx, T* dw, T* dbias, int64_t rows,
                     int64_t in, int64_t out) {
  const SerialBlas serial;
  const int threads = threads_for(rows, 16);
  PartialSums<T> partial(threads, out * (in + 1));
  parallel_ranges(rows, threads, [&](int64_t begin, int64_t end, int thread) {
    T* dw_here = partial.of(thread);
    T* dbias_here = dw_here + out * in;
    const auto size = RightHandSide<T, P>::packed_size(out, in);
    const RightHandSide<T, P> weights(kNo, w, in, out, in, end - begin, weight_buffer<T, P>(size));
    for_each_block(begin, end, [&](int64_t row, int64_t count) {
      const T* dy_block = dy + row * out;
      if (dx) weights.multiply(dy_block, out, false, dx + row * in, in, count);
      if (dw)
        add_transposed_product<T, P>(dy_block, out, x + row * in, in, dw_here, in, out, in, count);
      if (dbias)
        for (int64_t i = 0; i < count; ++i)
          for (int64_t j = 0; j < out; ++j) dbias_here[j] += dy_block[i * out + j];
    });
  });
  if (dw) partial.add_to(dw, 0, out * in);
  if (dbias) partial.add_to(dbias, out * in, out);
}

template <class T, class P>
void perceptron_forward(const T* x, const T* w1, const T* w2, T* hidden, T* y,
                        const PerceptronShape& s) {
  if constexpr (std::is_same_v<T, P>)
    if (s.rows <= kFewRows) return perceptron_of_few_rows(x, w1, w2, hidden, y, s);
  const SerialBlas serial;
  parallel_ranges(s.rows, threads_for(s.rows, 16), [&](int64_t begin, int64_t end, int) {
    T* active = scratch<PerceptronShape, T>(kBlock * s.hidden);
    const auto size1 = RightHandSide<T, P>::packed_size(s.in, s.hidden);
    const auto size2 = RightHandSide<T, P>::packed_size(s.hidden, s.out);
    auto* buffer = weight_buffer<T, P>(size1 + size2);
    const auto count_here = end - begin;
    const RightHandSide<T, P> up(kYes, w1, s.in, s.in, s.hidden, count_here, buffer);
    const RightHandSide<T, P> down(kYes, w2, s.hidden, s.hidden, s.out, count_here, buffer + size1);
    for_each_block(begin, end, [&](int64_t row, int64_t count) {
      T* before = hidden ? hidden + row * s.hidden : active;
      up.multiply(x + row * s.in, s.in, false, before, s.hidden, count);
      gelu_of(before, active, count * s.hidden);
      down.multiply(active, s.hidden, false, y + row * s.out, s.out, count);
    });
  });
}

template <class T, class P>
void perceptron_backward(const T* x, const T* w1, const T* w2, const T* hidden, const T* dy, T* dx,
                         T* dw1, T* dw2, const PerceptronShape& s) {
  const SerialBlas serial;
  const int threads = threads_for(s.rows, 16);
  const int64_t size1 = s.hidden * s.in, size2 = s.out * s.hidden;
  PartialSums<T> partial(threads, size1 + size2);
  parallel_ranges(s.rows, threads, [&](int64_t begin, int64_t end, int thread) {
    T* dw1_here = partial.of(thread);
    T* dw2_here = dw1_here + size1;
    T* active = scratch<PerceptronShape, T>(2 * kBlock * s.hidden);
    T* dhidden = active + kBlock * s.hidden;
    const auto up_size = RightHandSide<T, P>::packed_size(s.hidden, s.in);
    const auto down_size = RightHandSide<T, P>::packed_size(s.out, s.hidden);
    auto* buffer = weight_buffer<T, P>(up_size + down_size);
    const auto count_here = end - begin;
    const RightHandSide<T, P> up(kNo, w1, s.in, s.hidden, s.in, count_here, buffer);
    const RightHandSide<T, P> down(kNo, w2, s.hidden, s.out, s.hidden, count_here,
                                   buffer + up_size);
    for_each_block(begin, end, [&](int64_t row, int64_t count) {
      const T* dy_block = dy + row * s.out;
      down.multiply(dy_block, s.out, false, dhidden, s.hidden, count);
      const T* before = hidden + row * s.hidden;
      for_each_vector<T>(count * s.hidden, [&](int64_t i, int64_t lanes) {
        const auto g = gelu(load_up_to(before + i, lanes));
        store_up_to(active + i, g.value, lanes);
        store_up_to(dhidden + i, g.slope * load_up_to(dhidden + i, lanes), lanes);
      });
      if (dw2)
        add_transposed_product<T, P>(dy_block, s.out, active, s.hidden, dw2_here, s.hidden, s.out,
                                     s.hidden, count);
      if (dw1)
        add_transposed_product<T, P>(dhidden, s.hidden, x + row * s.in, s.in, dw1_here, s.in,
                                     s.hidden, s.in, count);
      if (dx) up.multiply(dhidden, s.hidden, false, dx + row * s.in, s.in, count);
    });
  });
  if (dw1) partial.add_to(dw1, 0, size1);
  if (dw2) partial.add_to(dw2, size1, size2);
}

template <class T>
void gelu_forward(const T* x, T* y, int64_t size) {
  parallel_ranges(size, threads_for(size, 16384), [&](int64_t begin, int64_t end, int) {
    gelu_of(x + begin, y + begin, end - begin);
  });
}

template <class T>
void gelu_backward(const T* x, const T* dy, T* dx, int64_t size) {
  parallel_ranges(size, threads_for(size, 16384), [&](int64_t begin, int64_t end, int) {
    for_each_vector<T>(end - begin, [&](int64_t i, int64_t lanes) {
      const auto at = begin + i;
      store_up_to(dx + at, gelu(load_up_to(x + at, lanes)).slope * load_up_to(dy + at, lanes),
                  lanes);
    });
  });
}

#define GEORES_INSTANTIATE_PRODUCTS(T, P)                                                          \
  template void linear_forward<T, P>(const T*, const T*, const T*, T*, int64_t, int64_t, int64_t); \
  template void linear_backward<T, P>(const T*, const T*, const T*, T*, T*, T*, int64_t, int64_t,  \
                                      int64_t);                                                    \
  template void perceptron_forward<T, P>(const T*, const T*, const T*, T*, T*,                     \
                                         const PerceptronShape&);                                  \
  template void perceptron_backward<T, P>(const T*, const T*, const T*, const T*, const T*, T*,    \
                                          T*, T*, const PerceptronShape&);
GEORES_INSTANTIATE_PRODUCTS(float, float)
GEORES_INSTANTIATE_PRODUCTS(float, BFloat16)
GEORES_INSTANTIATE_PRODUCTS(double, double)
#undef GEORES_INSTANTIATE_PRODUCTS

#define GEORES_INSTANTIATE(T)                        \
  template void gelu_forward(const T*, T*, int64_t); \
  template void gelu_backward(const T*, const T*, T*, int64_t);
GEORES_INSTANTIATE(float)
GEORES_INSTANTIATE(double)
#undef GEORES_INSTANTIATE

}  // namespace geores::kernels
