#include "geores/ops/mixers/quaternions.h"

#include "geores/base/error.h"

namespace geores {
namespace {

// Parts 1, i, j, k of a unit quaternion.
struct Parts {
  Tensor r, i, j, k;
};

Parts unit(const Tensor& q) {
  const auto parts = (q / q.norm(2, {-1}, /*keepdim=*/true)).unbind(-1);
  return {parts[0], parts[1], parts[2], parts[3]};
}

Tensor rows(const std::vector<Tensor>& entries) {
  return torch::stack(entries, -1).unflatten(-1, std::vector<int64_t>{4, 4});
}

}  // namespace

Tensor quaternion_rotation(const Tensor& p, const Tensor& q) {
  require(p.size(-1) == 4 && q.size(-1) == 4, "quaternion_rotation",
          "a quaternion has 4 values, got {} and {}", p.size(-1), q.size(-1));
  const auto [a, b, c, d] = unit(p);
  const auto [e, f, g, h] = unit(q);
  const auto left = rows({a, -b, -c, -d,  //
                          b, a, -d, c,    //
                          c, d, a, -b,    //
                          d, -c, b, a});
  const auto right = rows({e, f, g, h,    // of the conjugate of q
                           -f, e, -h, g,  //
                           -g, h, e, -f,  //
                           -h, -g, f, e});
  return left.matmul(right);
}

}  // namespace geores
