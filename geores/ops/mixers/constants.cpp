#include "geores/ops/mixers/constants.h"

#include <utility>

#include "geores/base/error.h"
#include "geores/manifold/permutation.h"
#include "geores/manifold/spectral_sphere.h"

namespace geores {
namespace {

// Calls f with the compile-time constant equal to n, which must be in First..Last.
template <int First, int Last, class F>
Tensor with_size(int64_t n, const char* where, F&& f) {
  Tensor result;
  const auto try_sizes = [&]<int... Offset>(std::integer_sequence<int, Offset...>) {
    return ((n == First + Offset &&
             (result = f(std::integral_constant<int, First + Offset>()), true)) ||
            ...);
  };
  require(try_sizes(std::make_integer_sequence<int, Last - First + 1>()), where,
          "the number of streams must be in {}..{}, got {}", First, Last, n);
  return result;
}

template <int R, int C>
Tensor to_tensor(const manifold::Matrix<double, R, C>& m) {
  auto tensor = torch::empty({R, C}, torch::kFloat64);
  auto* values = tensor.data_ptr<double>();
  for (int i = 0; i < R; ++i)
    for (int j = 0; j < C; ++j) *values++ = m(i, j);
  return tensor;
}

template <class Set>
Tensor stack_permutations(const Set& set) {
  std::vector<Tensor> matrices;
  for (int i = 0; i < Set::count; ++i)
    matrices.push_back(to_tensor(set[i].template matrix<double>()));
  return torch::stack(matrices);
}

}  // namespace

Tensor all_permutations(int64_t n) {
  return with_size<1, 6>(n, "all_permutations", [](auto size) {
    return stack_permutations(manifold::AllPermutations<size>());
  });
}

Tensor jpmhc_permutations(int64_t n, uint64_t seed) {
  return with_size<1, kLargestFixedSize>(n, "jpmhc_permutations", [&](auto size) {
    return stack_permutations(manifold::JpmhcPermutations<size>(seed));
  });
}

Tensor helmert_basis(int64_t n) {
  return with_size<2, kLargestFixedSize>(n, "helmert_basis", [](auto size) {
    return to_tensor(manifold::helmert_basis<double, size>());
  });
}

}  // namespace geores
