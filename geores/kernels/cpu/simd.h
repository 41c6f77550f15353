// Short vectors in the notation of GCC and Clang. The same source becomes NEON on aarch64 and SSE
// or AVX on x86_64; GEORES_MARCH decides how wide. Arithmetic on vectors is plain + − * /.
#pragma once

#include <cstdint>
#include <cstring>

namespace geores::kernels {

#if defined(__AVX512F__)
inline constexpr int kVectorBytes = 64;
#elif defined(__AVX__)
inline constexpr int kVectorBytes = 32;
#else
inline constexpr int kVectorBytes = 16;
#endif

template <class T>
struct VectorOf;
template <>
struct VectorOf<float> {
  typedef float Type __attribute__((vector_size(kVectorBytes)));
  typedef int32_t Bits __attribute__((vector_size(kVectorBytes)));
  typedef uint32_t Words __attribute__((vector_size(kVectorBytes)));
  typedef float InMemory __attribute__((vector_size(kVectorBytes), aligned(4), may_alias));
};
template <>
struct VectorOf<double> {
  typedef double Type __attribute__((vector_size(kVectorBytes)));
  typedef int64_t Bits __attribute__((vector_size(kVectorBytes)));
  typedef double InMemory __attribute__((vector_size(kVectorBytes), aligned(8), may_alias));
};

template <class T>
using Vec = typename VectorOf<T>::Type;

template <class T>
inline constexpr int kLanes = kVectorBytes / static_cast<int>(sizeof(T));

// `count` rounded up to whole vectors, or to a multiple of `to`: the size of a padded buffer.
template <class T>
constexpr int64_t padded(int64_t count, int64_t to = kLanes<T>) {
  return (count + to - 1) / to * to;
}

// Loads and stores go through a vector type without alignment: GCC sends a 16-byte memcpy through
// integer registers.
template <class T>
inline Vec<T> load(const T* from) {
  return *reinterpret_cast<const typename VectorOf<T>::InMemory*>(from);
}

template <class T>
inline void store(T* to, const Vec<T>& v) {
  *reinterpret_cast<typename VectorOf<T>::InMemory*>(to) = v;
}

template <class T>
inline Vec<T> broadcast(T x) {
  return Vec<T>{} + x;
}

// Loads the first `count` lanes, count < kLanes; the other lanes are `fill`.
template <class T>
inline Vec<T> load_some(const T* from, int64_t count, T fill = T(0)) {
  Vec<T> v = broadcast(fill);
  std::memcpy(&v, from, static_cast<size_t>(count) * sizeof(T));
  return v;
}

template <class T>
inline void store_some(T* to, const Vec<T>& v, int64_t count) {
  std::memcpy(to, &v, static_cast<size_t>(count) * sizeof(T));
}

template <class T>
inline T sum_of_lanes(const Vec<T>& v) {
  T sum = 0;
  for (int i = 0; i < kLanes<T>; ++i) sum += v[i];
  return sum;
}

// Calls f(offset, count) for every vector of 0..size; the last vector may be partial. Always
// inlined: otherwise the variables that f captures would be read from memory again for every
// vector.
template <class T, class F>
[[gnu::always_inline]] inline void for_each_vector(int64_t size, F&& f) {
  int64_t i = 0;
  for (; i + kLanes<T> <= size; i += kLanes<T>) f(i, int64_t{kLanes<T>});
  if (i < size) f(i, size - i);
}

template <class T>
inline Vec<T> load_up_to(const T* from, int64_t count, T fill = T(0)) {
  return count == kLanes<T> ? load(from) : load_some(from, count, fill);
}

template <class T>
inline void store_up_to(T* to, const Vec<T>& v, int64_t count) {
  count == kLanes<T> ? store(to, v) : store_some(to, v, count);
}

// The sum of term(offset, count) over all lanes and all vectors of 0..size. It keeps four sums, so
// that no addition waits for the one before it.
template <class T, class F>
[[gnu::always_inline]] inline T sum_over_vectors(int64_t size, F&& term) {
  Vec<T> sum0{}, sum1{}, sum2{}, sum3{};
  constexpr int64_t lanes = kLanes<T>;
  int64_t at = 0;
  for (; at + 4 * lanes <= size; at += 4 * lanes) {
    sum0 += term(at, lanes);
    sum1 += term(at + lanes, lanes);
    sum2 += term(at + 2 * lanes, lanes);
    sum3 += term(at + 3 * lanes, lanes);
  }
  for (; at < size; at += lanes) sum0 += term(at, size - at < lanes ? size - at : lanes);
  return sum_of_lanes<T>((sum0 + sum1) + (sum2 + sum3));
}

template <class T>
inline T sum_of(const T* values, int64_t size) {
  return sum_over_vectors<T>(
      size, [&](int64_t at, int64_t count) { return load_up_to(values + at, count); });
}

template <class T>
inline T inner_product(const T* a, const T* b, int64_t size) {
  return sum_over_vectors<T>(size, [&](int64_t at, int64_t count) {
    return load_up_to(a + at, count) * load_up_to(b + at, count);
  });
}

}  // namespace geores::kernels
