// How a computation of this folder runs its independent jobs: job(0) … job(count − 1), one after
// the other unless the caller brings another way (spectrum/threads.h has one that uses threads).
// No result depends on it.
#pragma once

#include <functional>

namespace geores::spectral {

using Job = std::function<void(int index)>;
using RunJobs = std::function<void(int count, const Job& job)>;

inline void one_by_one(int count, const Job& job) {
  for (int i = 0; i < count; ++i) job(i);
}

}  // namespace geores::spectral
