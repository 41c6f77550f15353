#include "geores/kernels/routed/routed_streams.h"

#include "geores/kernels/cpu/parallel.h"
#include "geores/kernels/dense/normalized_linear.h"
#include "geores/kernels/streams/stream_rows.h"

namespace geores::kernels {
namespace {

struct RouteSpace;

// The 3n² raw values of a block of tokens, made from their differences.
template <class T>
class RawBlock {
 public:
  explicit RawBlock(int64_t n)
      : differences_(route_differences(n)),
        size_(3 * n * n),
        raw_(scratch<RawBlock, T>(2 * kNormalizedRows * size_)) {
    std::fill_n(raw_, kNormalizedRows * size_, T(0));
  }

  T* raw() const { return raw_; }
  T* gradients() const { return raw_ + kNormalizedRows * size_; }

  void set(const T* entries, int64_t tokens) const {
    for (int64_t t = 0; t < tokens; ++t)
      for (size_t k = 0; k < differences_.size(); ++k)
        raw_[t * size_ + differences_[k].at] = *entries++;
  }

  void get_gradients(T* dentries, int64_t tokens) const {
    for (int64_t t = 0; t < tokens; ++t)
      for (const auto& difference : differences_)
        *dentries++ = gradients()[t * size_ + difference.at];
  }

 private:
  std::vector<RouteDifference> differences_;
  int64_t size_;
  T* raw_;
};

}  // namespace

std::vector<RouteDifference> route_differences(int64_t n) {
  std::vector<RouteDifference> differences;
  const auto at = [n](int64_t part, int64_t i, int64_t j) { return (part * n + i) * n + j; };
  for (int64_t i = 0; i < n; ++i)  // softmax over the last axis
    for (int64_t j = 0; j + 1 < n; ++j) differences.push_back({at(0, i, j), at(0, i, n - 1)});
  for (int64_t i = 0; i + 1 < n; ++i)  // softmax over the first axis
    for (int64_t j = 0; j < n; ++j) differences.push_back({at(1, i, j), at(1, n - 1, j)});
  for (int64_t i = 0; i < n; ++i)  // skew
    for (int64_t j = i + 1; j < n; ++j) differences.push_back({at(2, i, j), at(2, j, i)});
  return differences;
}

template <class T, class P>
void routed_streams_forward(const T* x, const RouteProjection<T>& p, const RoutedStreams<T>& out,
                            const StreamShape& s) {
  const SerialBlas serial;
  const auto width = s.n * s.d, n2 = s.n * s.n;
  const auto entries = static_cast<int64_t>(route_differences(s.n).size());
  parallel_ranges(s.tokens, threads_for(s.tokens, 16), [&](int64_t begin, int64_t end, int) {
    const NormalizedProduct<T, P> product(p.norm, p.w, p.bias, {end - begin, width, entries});
    const RawBlock<T> block(s.n);
    for (auto t = begin; t < end; t += kNormalizedRows) {
      const auto tokens = std::min(kNormalizedRows, end - t);
      product.multiply(x + t * width, out.entries + t * entries, out.statistics + t, tokens);
      block.set(out.entries + t * entries, tokens);
      cayley_routes_forward(static_cast<const T*>(block.raw()), p.routes, out.res + t * n2,
                            out.read + t * s.n, out.write + t * s.n, {tokens, s.n});
      collect_norm_forward(static_cast<const T*>(out.read + t * s.n), x + t * width, p.read_norm, 1,
                           out.h + t * s.d, out.collected_statistics + t, {tokens, s.n, s.d});
    }
  });
}

template <class T, class P>
void routed_streams_backward(const T* x, const RouteProjection<T>& p, const RoutedStreams<T>& out,
                             const T* dh, const T* dwrite, const T* dout,
                             const RoutedStreamsGradients<T>& gradients, const StreamShape& s) {
  const SerialBlas serial;
  const auto width = s.n * s.d, n2 = s.n * s.n;
  const auto entries = static_cast<int64_t>(route_differences(s.n).size());
  const auto size = entries * width;
  const int threads = threads_for(s.tokens, 16);
  PartialSums<T> partial(threads, size + entries + s.d);
  with_streams(s.n, [&](auto streams) {
    parallel_ranges(s.tokens, threads, [&](int64_t begin, int64_t end, int thread) {
      T* dw = partial.of(thread);
      T* dbias = dw + size;
      T* dread_weight = dbias + entries;
      NormalizedProductGradient<T, P> gradient(p.norm, p.w, dw, dbias,
                                               {end - begin, width, entries});
      const RawBlock<T> block(s.n);
      T* dres = scratch<RouteSpace, T>(kNormalizedRows * (n2 + s.n + entries + s.d) + s.d);
      T* dread = dres + kNormalizedRows * n2;
      T* dentries = dread + kNormalizedRows * s.n;
      T* dcollected = dentries + kNormalizedRows * entries;
      T* buffer = dcollected + kNormalizedRows * s.d;
      for (auto first = begin; first < end; first += kNormalizedRows) {
        const auto tokens = std::min(kNormalizedRows, end - first);
        std::fill_n(dres, tokens * n2, T(0));
        std::fill_n(dread, tokens * s.n, T(0));
        for (int64_t i = 0; i < tokens; ++i) {
          const auto t = first + i;
          T* dc = dcollected + i * s.d;
          collect_norm_gradient(streams, out.read + t * s.n, x + t * width, p.read_norm, 1,
                                out.collected_statistics[t], dh + t * s.d, dc, dread_weight, buffer,
                                s.d);
          add_inner_products<true>(streams, dout + t * width, static_cast<const T*>(dc),
                                   x + t * width, dres + i * n2, dread + i * s.n, s.d);
        }
        block.set(out.entries + first * entries, tokens);
        cayley_routes_backward(static_cast<const T*>(block.raw()), p.routes,
                               static_cast<const T*>(dres), static_cast<const T*>(dread),
                               dwrite + first * s.n, block.gradients(), {tokens, s.n});
        block.get_gradients(dentries, tokens);
        gradient.start(dentries, tokens);
        for (int64_t i = 0; i < tokens; ++i) {
          const auto t = first + i;
          T* dx = gradients.x + t * width;
          apply_operator<true, true>(streams, out.res + t * n2, dout + t * width,
                                     out.read + t * s.n,
                                     static_cast<const T*>(dcollected + i * s.d), 0, dx, s.d);
          gradient.add_row(i, x + t * width, out.statistics[t], dx);
        }
        gradient.finish();
      }
    });
  });
  partial.add_to(gradients.w, 0, size);
  if (gradients.bias) partial.add_to(gradients.bias, size, entries);
  partial.add_to(gradients.read_weight, size + entries, s.d);
}

#define GEORES_INSTANTIATE(T, P)                                                                  \
  template void routed_streams_forward<T, P>(const T*, const RouteProjection<T>&,                 \
                                             const RoutedStreams<T>&, const StreamShape&);        \
  template void routed_streams_backward<T, P>(                                                    \
      const T*, const RouteProjection<T>&, const RoutedStreams<T>&, const T*, const T*, const T*, \
      const RoutedStreamsGradients<T>&, const StreamShape&);
GEORES_INSTANTIATE(float, float)
GEORES_INSTANTIATE(float, BFloat16)
GEORES_INSTANTIATE(double, double)
#undef GEORES_INSTANTIATE

}  // namespace geores::kernels
