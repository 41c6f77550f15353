#include "lab/spectrum/threads.h"

#include "geores/base/parallel.h"

namespace geores::spectral {

RunJobs on_threads(int threads) {
  return [threads](int count, const Job& job) {
    in_parallel(count, threads, [&](int64_t i) { job(static_cast<int>(i)); });
  };
}

}  // namespace geores::spectral
