#include "geores/kernels/training/dropout.h"

#include "geores/kernels/cpu/parallel.h"

namespace geores::kernels {

template <class A>
void drop_elements(const A* x, A* y, int64_t size, const DropoutMask& mask) {
  constexpr int64_t values_of_a_thread = 16384;
  const auto key = mask.key();
  const A scale = static_cast<A>(mask.scale);
  parallel_ranges(size, threads_for(size, values_of_a_thread),
                  [&](int64_t begin, int64_t end, int) {
                    for (auto i = begin; i < end; ++i)
                      y[i] = mask.keeps(key, i) ? x[i] * scale : A(0);
                  });
}

template void drop_elements(const float*, float*, int64_t, const DropoutMask&);
template void drop_elements(const double*, double*, int64_t, const DropoutMask&);

}  // namespace geores::kernels
