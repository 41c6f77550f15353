#include "geores/kernels/attention/rotary.h"

#include <algorithm>

#include "geores/kernels/cpu/parallel.h"

namespace geores::kernels {

template <class T>
void turn_heads(const T* qkv, const T* cosine, const T* sine, T* out, const HeadsShape& s,
                Turn turn) {
  constexpr int64_t kValuesOfAThread = 1 << 14;
  const auto half = s.head_width / 2, model = s.heads * s.head_width, rows = s.batch * s.length;
  const T sign = turn == Turn::forth ? T(1) : T(-1);
  parallel_ranges(rows, threads_for(rows * 3 * model, kValuesOfAThread),
                  [&](int64_t begin, int64_t end, int) {
                    for (auto row = begin; row < end; ++row) {
                      const auto angles = row % s.length * half;
                      for (int64_t head = 0; head < 2 * s.heads; ++head) {  // queries, then keys
                        const T* from = qkv + row * 3 * model + head * s.head_width;
                        T* to = out + row * 3 * model + head * s.head_width;
                        for (int64_t i = 0; i < half; ++i) {
                          const T a = from[i], b = from[i + half];
                          const T c = cosine[angles + i], d = sign * sine[angles + i];
                          to[i] = a * c - b * d;
                          to[i + half] = b * c + a * d;
                        }
                      }
                      const auto values = row * 3 * model + 2 * model;
                      if (out != qkv) std::copy_n(qkv + values, model, out + values);
                    }
                  });
}

template void turn_heads<float>(const float*, const float*, const float*, float*, const HeadsShape&,
                                Turn);
template void turn_heads<double>(const double*, const double*, const double*, double*,
                                 const HeadsShape&, Turn);

}  // namespace geores::kernels
