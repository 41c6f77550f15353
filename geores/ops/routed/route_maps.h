// Maps projections to routes, elementwise. Composed, each slice, activation, scale and bias is a
// separate operation; on a GPU each of these functions is one kernel each way.
#pragma once

#include "geores/ops/routed/routes.h"
#include "geores/ops/torch.h"

namespace geores {

// raw (B, T, n, n + 2), a row for each stream:
//   read_j = scale tanh(raw_j0) + pre_j,  res_ij = scale tanh(raw_j,1+i) + res_ij,
//   write_j = post_scale tanh(raw_j,n+1) + post_j
struct TanhRoutes {
  Tensor scale, post_scale;  // (1), (1)
  Tensor pre, res, post;     // (n), (n, n), (n)
};
Routes tanh_routes(const Tensor& raw, const TanhRoutes& parameters);

// raw (B, T, 2n + …) -> read = σ(the first n) + offset, write = 2σ(the next n), others unchanged.
struct SigmoidRoutes {
  Tensor read, write, others;
};
SigmoidRoutes sigmoid_routes(const Tensor& raw, int64_t n, double offset);

}  // namespace geores
