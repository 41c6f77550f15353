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
  auto joined = zeros<T>(3 * tokens * row), wanted = joined;
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

TEST(EmulatedHeads, QueriesAndKeysTurnAndValuesMayStayWhereTheyAre) {
  for (const auto& s : {HeadsShape{2, 3, 2, 8}, HeadsShape{1, 5, 3, 6}}) {
    const auto row = s.heads * s.head_width, tokens = s.batch * s.length, half = s.head_width / 2;
    const auto qkv = drawn<float>(3 * tokens * row), cosine = drawn<float>(s.length * half),
               sine = drawn<float>(s.length * half);
    auto q = zeros<float>(tokens * row), k = q, v = q, q_alone = q, k_alone = q;
    split_heads_forward<float, float>(kStream, qkv.data(), cosine.data(), sine.data(), q.data(),
                                      k.data(), v.data(), s);
    split_heads_forward<float, float>(kStream, qkv.data(), cosine.data(), sine.data(),
                                      q_alone.data(), k_alone.data(), nullptr, s);
    for (int64_t i = 0; i < tokens * row; ++i) {
      const auto token = i / row, column = i % s.head_width, angle = token % s.length * half;
      const auto at = [&](int part, int64_t to) {
        return qkv[static_cast<size_t>((token * 3 + part) * row + i % row - column + to)];
      };
      const auto c = cosine[static_cast<size_t>(angle + column % half)],
                 turn = sine[static_cast<size_t>(angle + column % half)];
      const auto turned = [&](int part) {
        return column < half ? at(part, column) * c - at(part, column + half) * turn
                             : at(part, column) * c + at(part, column - half) * turn;
      };
      EXPECT_NEAR(q[static_cast<size_t>(i)], turned(0), 1e-5);
      EXPECT_NEAR(k[static_cast<size_t>(i)], turned(1), 1e-5);
      EXPECT_EQ(v[static_cast<size_t>(i)], at(2, column));
    }
    EXPECT_EQ(q, q_alone);
    EXPECT_EQ(k, k_alone);
  }
}

}  // namespace
}  // namespace geores::kernels
#endif
