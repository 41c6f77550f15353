#include "geores/spectrum/threads.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace geores::spectral {

RunJobs on_threads(int threads) {
  if (threads <= 0) threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  return [threads](int count, const Job& job) {
    std::atomic<int> next = 0;
    std::exception_ptr failure;
    std::mutex failure_lock;
    const auto work = [&] {
      for (int i = next++; i < count; i = next++) {
        try {
          job(i);
        } catch (...) {
          const std::lock_guard hold(failure_lock);
          if (!failure) failure = std::current_exception();
          next = count;
        }
      }
    };
    std::vector<std::thread> others;
    for (int t = 1; t < std::min(threads, count); ++t) others.emplace_back(work);
    work();
    for (auto& thread : others) thread.join();
    if (failure) std::rethrow_exception(failure);
  };
}

}  // namespace geores::spectral
