#ifdef GEORES_EMULATED_KERNELS
#include <gtest/gtest.h>

#include "geores/kernels/attention/rotary.h"
#include "geores/kernels/emulated_check_test.h"

namespace geores::kernels {
namespace {

// `from`: where the first part begins, which is at a multiple of 16 bytes or not.
template <class T>
void compare_joined(const HeadsShape& s, int64_t from) {
  const auto row = s.heads * s.head_width, tokens = s.batch * s.length;
  const auto dq = drawn<T>(tokens * row + from), dk = drawn<T>(tokens * row),
             dv = drawn<T>(tokens * row);
  auto joined = room<T>(3 * tokens * row), wanted = joined;
  split_heads_backward<T, T>(kStream, dq.data() + from, dk.data(), dv.data(), nullptr, nullptr,
                             joined.data(), s);
  const T* parts[] = {dq.data() + from, dk.data(), dv.data()};
  for (int64_t i = 0; i < 3 * tokens * row; ++i) {
    const auto token = i / (3 * row), part = i / row % 3;
    wanted[static_cast<size_t>(i)] = parts[part][token * row + i % row];
  }
  EXPECT_EQ(joined, wanted) << "rows of " << row << " from " << from;
}

TEST(EmulatedHeads, GradientsOfPartsThatDoNotTurnAreJoined) {
  for (const int64_t from : {0, 1}) {
    compare_joined<float>({2, 3, 4, 8}, from);
    compare_joined<float>({1, 20, 3, 50}, from);
    compare_joined<float>({9, 2, 12, 64}, from);
    compare_joined<double>({2, 3, 2, 6}, from);
  }
}

}  // namespace
}  // namespace geores::kernels
#endif
