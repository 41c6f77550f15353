#include "geores/ops/streams.h"

#include <vector>

#include "geores/base/error.h"

namespace geores {

Tensor split_streams(const Tensor& x, int64_t n) {
  require(n >= 1 && x.size(-1) % n == 0, "split_streams", "width {} is not divisible by {} streams",
          x.size(-1), n);
  return x.unflatten(-1, std::vector<int64_t>{n, x.size(-1) / n});
}

Tensor join_streams(const Tensor& x) { return x.flatten(-2); }

Tensor mix_streams(const Tensor& m, const Tensor& x) { return m.matmul(x); }

Tensor collect_streams(const Tensor& weight, const Tensor& x) {
  return weight.unsqueeze(-2).matmul(x).squeeze(-2);
}

Tensor spread_to_streams(const Tensor& weight, const Tensor& y) {
  return weight.unsqueeze(-1) * y.unsqueeze(-2);
}

}  // namespace geores
