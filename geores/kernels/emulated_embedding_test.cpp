#ifdef GEORES_EMULATED_KERNELS
#include <gtest/gtest.h>

#include "geores/kernels/dense/embedding.h"
#include "geores/kernels/emulated_check_test.h"

namespace geores::kernels {
namespace {

template <class T>
void compare_embedding(const EmbeddingShape& s) {
  const auto what = "width " + std::to_string(s.width);
  const auto table = drawn<T>(s.ids * s.width), rows = drawn<T>(s.length * s.width),
             dout = drawn<T>(s.tokens * s.width);
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < s.tokens; ++i) ids.push_back(i * i % s.ids);  // some more than once
  auto out = zeros<T>(s.tokens * s.width), wanted = out;
  auto dtable = drawn<T>(s.ids * s.width), wanted_back = dtable;
  embed(kStream, table.data(), ids.data(), rows.data(), out.data(), s);
  add_to_table(kStream, ids.data(), dout.data(), dtable.data(), s);
  for (int64_t i = 0; i < s.tokens; ++i)
    for (int64_t c = 0; c < s.width; ++c) {
      const auto at = [&](int64_t row) { return static_cast<size_t>(row * s.width + c); };
      const auto id = ids[static_cast<size_t>(i)];
      wanted[at(i)] = table[at(id)] + rows[at(i % s.length)];
      wanted_back[at(id)] += dout[at(i)];
    }
  expect_close(out, wanted, what);
  expect_close(dtable, wanted_back, what + " back");
}

TEST(EmulatedEmbedding, IsARowOfTheTablePlusOneOfItsPosition) {
  for (const int64_t width : {4, 7, 136}) {
    const EmbeddingShape shape{.tokens = 30, .length = 10, .width = width, .ids = 7};
    compare_embedding<float>(shape);
    compare_embedding<double>(shape);
  }
}

}  // namespace
}  // namespace geores::kernels
#endif
