#include "geores/ops/mixers/quaternions.h"

#include <gtest/gtest.h>

#include <array>

#include "geores/testing/gradient_check.h"

namespace geores {
namespace {

using Quaternion = std::array<double, 4>;

// By the table i² = j² = k² = ijk = −1.
Quaternion product(const Quaternion& a, const Quaternion& b) {
  return {a[0] * b[0] - a[1] * b[1] - a[2] * b[2] - a[3] * b[3],
          a[0] * b[1] + a[1] * b[0] + a[2] * b[3] - a[3] * b[2],
          a[0] * b[2] - a[1] * b[3] + a[2] * b[0] + a[3] * b[1],
          a[0] * b[3] + a[1] * b[2] - a[2] * b[1] + a[3] * b[0]};
}

Quaternion values(const Tensor& x) {
  return {x[0].item<double>(), x[1].item<double>(), x[2].item<double>(), x[3].item<double>()};
}

TEST(QuaternionRotation, MultipliesOnBothSides) {
  torch::manual_seed(1);
  for (int draw = 0; draw < 20; ++draw) {
    const auto p = torch::randn({4}, torch::kFloat64), q = torch::randn({4}, torch::kFloat64),
               x = torch::randn({4}, torch::kFloat64);
    auto conjugate = values(q / q.norm());
    for (int i = 1; i < 4; ++i) conjugate[i] = -conjugate[i];
    const auto wanted = product(product(values(p / p.norm()), values(x)), conjugate);
    const auto found = values(quaternion_rotation(p, q).matmul(x));
    for (int i = 0; i < 4; ++i) EXPECT_NEAR(found[i], wanted[i], 1e-14);
  }
}

TEST(QuaternionRotation, IsOrthogonalWithDeterminantOneAtEveryScale) {
  torch::manual_seed(2);
  const auto scale = torch::pow(10.0, 12 * torch::rand({1000, 1}, torch::kFloat64) - 6);
  const auto r = quaternion_rotation(scale * torch::randn({1000, 4}, torch::kFloat64),
                                     torch::randn({1000, 4}, torch::kFloat64));
  const auto defect = r.transpose(-1, -2).matmul(r) - torch::eye(4, torch::kFloat64);
  EXPECT_LT(defect.abs().max().item<double>(), 1e-14);
  EXPECT_LT((torch::linalg_det(r) - 1).abs().max().item<double>(), 1e-13);
}

// −I and quarter turns of two planes at once, which a Cayley map cannot reach or has at infinity.
TEST(QuaternionRotation, ReachesHalfTurns) {
  const auto quaternion = [](double r, double i, double j, double k) {
    return torch::tensor({r, i, j, k}, torch::kFloat64);
  };
  const auto one = quaternion(1, 0, 0, 0);
  EXPECT_TRUE(torch::equal(quaternion_rotation(-one, one), -torch::eye(4, torch::kFloat64)));
  EXPECT_TRUE(torch::equal(quaternion_rotation(one, one), torch::eye(4, torch::kFloat64)));
  const auto i = quaternion(0, 1, 0, 0);
  EXPECT_TRUE(torch::equal(quaternion_rotation(i, i),
                           torch::diag(torch::tensor({1.0, 1.0, -1.0, -1.0}, torch::kFloat64))));
}

TEST(QuaternionRotation, GradientsEqualFiniteDifferences) {
  torch::manual_seed(3);
  auto p = torch::randn({5, 4}, torch::kFloat64).requires_grad_(true);
  auto q = torch::randn({5, 4}, torch::kFloat64).requires_grad_(true);
  const auto check =
      check_gradients([&] { return quaternion_rotation(p, q); }, {{"p", p}, {"q", q}});
  EXPECT_LT(check.error, 1e-8) << check.worst;
}

}  // namespace
}  // namespace geores
