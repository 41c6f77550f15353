// Calls job(0) … job(count − 1) on several threads (0: one for each core); each takes the next
// number as it gets free. The first exception ends the rest and is thrown here.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace geores {

inline void in_parallel(int64_t count, int threads, const std::function<void(int64_t)>& job) {
  const auto cores = static_cast<int64_t>(std::max(1u, std::thread::hardware_concurrency()));
  const auto workers =
      std::clamp<int64_t>(threads > 0 ? threads : cores, 1, std::max<int64_t>(1, count));
  std::atomic<int64_t> next = 0;
  std::exception_ptr failure;
  std::mutex guard;
  const auto work = [&] {
    try {
      for (auto i = next++; i < count; i = next++) job(i);
    } catch (...) {
      next = count;
      const std::lock_guard lock(guard);
      if (!failure) failure = std::current_exception();
    }
  };
  std::vector<std::thread> others;
  for (int64_t i = 1; i < workers; ++i) others.emplace_back(work);
  work();
  for (auto& thread : others) thread.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace geores
