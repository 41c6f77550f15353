// Threads. Work is divided into one contiguous range per thread, always in the same way for the
// same number of threads. So sums over threads have a fixed order, and a run repeats bit for bit.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace geores::kernels {

// The number of threads worth starting for `count` items if each takes at least `grain` of them.
inline int threads_for(int64_t count, int64_t grain) {
  if (omp_in_parallel()) return 1;
  const auto most = std::max<int64_t>(1, count / std::max<int64_t>(grain, 1));
  return static_cast<int>(std::min<int64_t>(omp_get_max_threads(), most));
}

// f(begin, end, thread) on each of `threads` ranges of 0..count.
template <class F>
void parallel_ranges(int64_t count, int threads, F&& f) {
  if (threads <= 1) {
    f(int64_t{0}, count, 0);
    return;
  }
#pragma omp parallel num_threads(threads)
  {
    // A thread takes several ranges if the runtime gave fewer threads than were asked for.
    for (int part = omp_get_thread_num(); part < threads; part += omp_get_num_threads())
      f(count * part / threads, count * (part + 1) / threads, part);
  }
}

// f(i) for every i, in any order: for pieces of work of uneven size that share nothing.
template <class F>
void parallel_items(int64_t count, F&& f) {
  const int threads = threads_for(count, 1);
  if (threads <= 1) {
    for (int64_t i = 0; i < count; ++i) f(i);
    return;
  }
#pragma omp parallel for schedule(dynamic) num_threads(threads)
  for (int64_t i = 0; i < count; ++i) f(i);
}

// Working memory that a thread keeps for its next call, so that a kernel does not allocate each
// time. There is one buffer for each Tag and type.
template <class Tag, class T>
T* scratch(int64_t size) {
  thread_local std::vector<T> buffer;
  if (static_cast<int64_t>(buffer.size()) < size) buffer.resize(static_cast<size_t>(size));
  return buffer.data();
}

// A partial result of `size` values for each thread; partial results are summed in the order of the
// threads.
template <class T>
class PartialSums {
 public:
  PartialSums(int threads, int64_t size)
      : threads_(threads), size_(size), values_(scratch<PartialSums, T>(threads * size)) {
    std::fill_n(values_, threads * size, T(0));
  }

  T* of(int thread) { return values_ + thread * size_; }

  // Adds to total[0..count) the sum over the threads of values first..first + count.
  void add_to(T* total, int64_t first, int64_t count) const {
    for (int thread = 0; thread < threads_; ++thread) {
      const T* values = values_ + thread * size_ + first;
      for (int64_t i = 0; i < count; ++i) total[i] += values[i];
    }
  }

 private:
  int threads_;
  int64_t size_;
  T* values_;
};

}  // namespace geores::kernels
