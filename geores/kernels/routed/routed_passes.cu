#include "geores/kernels/routed/routed_passes.h"

#include "geores/kernels/streams/streams.cuh"

namespace geores::kernels {
namespace {

using namespace device;

template <int N, bool Shared, class L, class T, class A>
__global__ void write_back(const T* write, const A* branch, const T* dout, T* dwrite, A* dbranch,
                           int64_t tokens, int d) {
  wait_for_previous();
  constexpr int branches = Shared ? 1 : N, step = Shared ? 0 : 1;
  const int lane = threadIdx.x % L::kGroup;
  for_each_token<L::kGroup>(tokens, [&](int64_t t, bool there) {
    Token<N, L, T> g;
    Token<branches, L, T> y, dy = {};
    g.load(dout + t * N * d, lane, d);
    y.load(branch + t * branches * d, lane, d);
    T along[N] = {};
    g.for_each([&](int i, int c) {
      along[i] += g.at[i][c] * y.at[i * step][c];
      dy.at[i * step][c] += write[t * N + i] * g.at[i][c];
    });
    const SharedSums<L::kGroup, N, T> sums(along);
    if (!there) return;
    sums.store(dwrite + t * N, lane);
    dy.store(dbranch + t * branches * d, lane, d);
  });
}

template <int N, int Tiles, class L, class T, class A>
__global__ void read_back(ReadBackward<T, A> p, int64_t tokens, int d) {
  wait_for_previous();
  GEORES_SHARED_BYTES(memory);
  const int lane = threadIdx.x % L::kGroup;
  Token<Tiles, L, T> weight, dweight = {};
  weight.load_parameters(p.norm.weight, lane, d, T(1));
  for_each_token<L::kGroup>(tokens, [&](int64_t t, bool there) {
    Token<N, L, T> x, dout;
    Token<Tiles, L, T> g;
    T c[L::kHeld], dc[L::kHeld];
    x.load(p.x + t * N * d, lane, d);
    dout.load(p.dout + t * N * d, lane, d);
    g.load(p.dh + t * Tiles * d, lane, d);
    collect(p.read + t * N, x, c);
    collected_norm_back<Tiles, L>(c, p.statistics[t], g, weight, there, d, dweight, dc);
    T products[N * N] = {}, along[N] = {};
    add_inner_products(dout, x, products);
    x.for_each([&](int j, int i) { along[j] += x.at[j][i] * dc[i]; });  // x is 0 beyond the row
    const SharedSums<L::kGroup, N * N, T> dres(products);
    const SharedSums<L::kGroup, N, T> dread(along);
    if (!there) return;
    dres.store(p.dres + t * (N * N), lane);
    dread.store(p.dread + t * N, lane);
    L::store(dc, p.dc + t * d, lane, d);
  });
  add_columns<L>(dweight.at, Tiles, reinterpret_cast<T*>(memory), p.dweight, d);
}

template <int N, class L, class T, class A>
__global__ void __launch_bounds__(kThreads, sizeof(T) == 4 ? 2 : 1)
    routed_state_back(RoutedStateBackward<T, A> p, int64_t tokens, int d) {
  wait_for_previous();
  GEORES_SHARED_BYTES(memory);
  const int lane = threadIdx.x % L::kGroup, width = N * d;
  Token<N, L, T> weight, dweight = {}, dbias = {};
  weight.load_parameters(p.norm.weight, lane, d, T(1));
  for_each_token<L::kGroup>(tokens, [&](int64_t t, bool there) {
    Token<N, L, T> z, g, dout;
    T dc[L::kHeld], sum_g = 0, sum_gz = 0;
    const auto s = p.statistics[t];
    z.load(p.x + t * width, lane, d);
    g.load(p.dnormal + t * width, lane, d);
    dout.load(p.dout + t * width, lane, d);
    L::load(p.dc + t * d, lane, d, dc);
    z.for_each([&](int i, int c) {
      auto &value = z.at[i][c], &slope = g.at[i][c];  // slope is 0 beyond the row
      value = (value - s.mean) * s.inverse;
      if (there) {
        dweight.at[i][c] += slope * value;
        dbias.at[i][c] += slope;
      }
      slope *= weight.at[i][c];
      sum_g += slope;
      sum_gz += slope * value;
    });
    sum_g = p.norm.kind == NormKind::layer ? group_sum<L::kGroup>(sum_g) / T(width) : T(0);
    sum_gz = group_sum<L::kGroup>(sum_gz) / T(width);
    if (!there) return;
    auto dx = apply<true>(p.res + t * (N * N), dout);
    dx.for_each([&](int j, int c) {
      dx.at[j][c] +=
          p.read[t * N + j] * dc[c] + s.inverse * (g.at[j][c] - sum_g - z.at[j][c] * sum_gz);
    });
    dx.store(p.dx + t * width, lane, d);
  });
  auto* shared = reinterpret_cast<T*>(memory);
  if (p.dweight) add_columns<L>(dweight.at, N, shared, p.dweight, d);
  if (p.dbias) add_columns<L>(dbias.at, N, shared, p.dbias, d);
}

}  // namespace

template <class T, class A>
void write_backward(CudaStream stream, const T* write, const A* branch, Branch kind, const T* dout,
                    T* dwrite, A* dbranch, const StreamShape& s) {
  with_streams<T>(s.n, s.d, [&]<class L>(auto n, L) {
    const auto start = [&](auto shared) {
      launch(stream, {blocks_for(s.tokens, L::kGroup), kThreads},
             write_back<n.value, shared.value, L, T, A>, write, branch, dout, dwrite, dbranch,
             s.tokens, static_cast<int>(s.d));
    };
    if (kind == Branch::shared)
      start(std::true_type());
    else
      start(std::false_type());
  });
  check_launch("write_backward");
}

template <class T, class A>
void read_backward(CudaStream stream, const ReadBackward<T, A>& p, int64_t tiles,
                   const StreamShape& s) {
  with_streams<T>(s.n, s.d, [&]<class L>(auto n, L) {
    const auto start = [&](auto count) {
      launch(stream,
             {blocks_for(s.tokens, L::kGroup, 2 * blocks_for_sums()), kThreads,
              static_cast<size_t>(tiles * s.d) * sizeof(T)},
             read_back<n.value, count.value, L, T, A>, p, s.tokens, static_cast<int>(s.d));
    };
    if (tiles == 1)
      start(std::integral_constant<int, 1>());
    else
      start(n);
  });
  check_launch("read_backward");
}

template <class T, class A>
void routed_state_backward(CudaStream stream, const RoutedStateBackward<T, A>& p,
                           const StreamShape& s) {
  with_streams<T>(s.n, s.d, [&]<class L>(auto n, L) {
    // Each block adds its sums to global memory at the end. Long rows get fewer blocks, so that
    // there are fewer additions.
    const auto blocks = blocks_for(s.tokens, L::kGroup, blocks_for_sums());
    launch(stream, {blocks, kThreads, static_cast<size_t>(s.n * s.d) * sizeof(T)},
           routed_state_back<n.value, L, T, A>, p, s.tokens, static_cast<int>(s.d));
  });
  check_launch("routed_state_backward");
}

#define GEORES_INSTANTIATE(T, A)                                                                   \
  template void write_backward(CudaStream, const T*, const A*, Branch, const T*, T*, A*,           \
                               const StreamShape&);                                                \
  template void read_backward(CudaStream, const ReadBackward<T, A>&, int64_t, const StreamShape&); \
  template void routed_state_backward(CudaStream, const RoutedStateBackward<T, A>&,                \
                                      const StreamShape&);
GEORES_INSTANTIATE(float, float)
GEORES_INSTANTIATE(float, BFloat16)
GEORES_INSTANTIATE(double, double)
#undef GEORES_INSTANTIATE

}  // namespace geores::kernels
