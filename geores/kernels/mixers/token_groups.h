// The tokens of a CPU's mixers: one in each vector lane.
#pragma once

#include <algorithm>
#include <cstdint>

#include "geores/kernels/cpu/lanes.h"
#include "geores/kernels/cpu/parallel.h"
#include "geores/kernels/mixers/mixers.h"
#include "geores/kernels/sizes.h"

namespace geores::kernels {

template <class T, int N>
using LaneMatrix = manifold::Matrix<Lanes<T>, N>;

// f(size, first token, tokens) for groups of as many tokens as a vector has lanes. A thread is worth
// its start for 64 groups.
template <class T, class F>
void for_each_group(const MixerShape& s, F&& f) {
  with_size(s.n, [&](auto size) {
    const auto groups = (s.tokens + kLanes<T> - 1) / kLanes<T>;
    parallel_ranges(groups, threads_for(groups, 64), [&](int64_t begin, int64_t end, int) {
      for (auto group = begin; group < end; ++group) {
        const auto first = group * kLanes<T>;
        f(size, first, std::min<int64_t>(kLanes<T>, s.tokens - first));
      }
    });
  });
}

}  // namespace geores::kernels
