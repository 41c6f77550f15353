#include "geores/kernels/cuda/device.cuh"
#include "geores/kernels/dense/embedding.h"

namespace geores::kernels {
namespace {

using namespace device;

// f(token, its id) for the tokens of this thread's warp.
template <class F>
__device__ inline void for_each_id(const int64_t* ids, const EmbeddingShape& s, F&& f) {
  const auto warps = static_cast<int64_t>(gridDim.x) * (blockDim.x / 32);
  for (auto token = static_cast<int64_t>(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;
       token < s.tokens; token += warps) {
    const int64_t id = ids[token];
#ifndef GEORES_EMULATED
    if (id < 0 || id >= s.ids) __trap();
#endif
    f(token, id);
  }
}

template <int V, class T>
__global__ void embed_kernel(const T* table, const int64_t* ids, const T* rows, T* out,
                             EmbeddingShape s) {
  wait_for_previous();
  for_each_id(ids, s, [&](int64_t token, int64_t id) {
    const int64_t position = token % s.length;
    for (int64_t i = threadIdx.x % 32 * V; i < s.width; i += 32 * V) {
      T v[V], row[V];
      load_values<V>(table + id * s.width + i, v);
      load_values<V>(rows + position * s.width + i, row);
#pragma unroll
      for (int j = 0; j < V; ++j) v[j] += row[j];
      store_values<V>(out + token * s.width + i, v);
    }
  });
}

template <class T>
__global__ void add_to_table_kernel(const int64_t* ids, const T* dout, T* dtable,
                                    EmbeddingShape s) {
  wait_for_previous();
  for_each_id(ids, s, [&](int64_t token, int64_t id) {
    for (int64_t i = threadIdx.x % 32; i < s.width; i += 32)
      atomicAdd(dtable + id * s.width + i, dout[token * s.width + i]);
  });
}

}  // namespace

template <class T>
void embed(CudaStream stream, const T* table, const int64_t* ids, const T* rows, T* out,
           const EmbeddingShape& shape) {
  if (shape.tokens == 0) return;
  const Grid grid{blocks_for(shape.tokens, 32), kThreads};
  const auto addresses = reinterpret_cast<uintptr_t>(table) | reinterpret_cast<uintptr_t>(rows) |
                         reinterpret_cast<uintptr_t>(out);
  if (sizeof(T) == 4 && shape.width % 4 == 0 && addresses % 16 == 0)
    launch(stream, grid, embed_kernel<4, T>, table, ids, rows, out, shape);
  else
    launch(stream, grid, embed_kernel<1, T>, table, ids, rows, out, shape);
  check_launch("embed");
}

template <class T>
void add_to_table(CudaStream stream, const int64_t* ids, const T* dout, T* dtable,
                  const EmbeddingShape& shape) {
  if (shape.tokens == 0) return;
  launch(stream, {blocks_for(shape.tokens, 32), kThreads}, add_to_table_kernel<T>, ids, dout,
         dtable, shape);
  check_launch("add_to_table");
}

#define GEORES_INSTANTIATE(T)                                                                     \
  template void embed(CudaStream, const T*, const int64_t*, const T*, T*, const EmbeddingShape&); \
  template void add_to_table(CudaStream, const int64_t*, const T*, T*, const EmbeddingShape&);
GEORES_INSTANTIATE(float)
GEORES_INSTANTIATE(double)
#undef GEORES_INSTANTIATE

}  // namespace geores::kernels
