// The operations of DeepSeek-V4's hyper-connections under their public names (docs/guides/python.md).
// x (..., n, C) holds n streams. fn (2n + n², n·C), base (2n + n²) and scale (3) are in the order pre,
// post, comb, as in published weights. The mapping is computed in float32, or float64 for a float64
// x; its results have that type.
//   m = (vec(x) fnᵀ) · rsqrt(mean(x²) + norm_eps)
//   pre = σ(scale₀ m + base) + eps, post = 2σ(…)                               (..., n)
//   comb = softmax over the last axis + eps, then columns, then (iterations − 1) × (rows, columns), each
//   divided by (sum + eps)                                                   (..., n, n)
// comb[j, k] says how stream j goes to stream k: the transpose of geores' H_res.
#pragma once

#include <cstdint>
#include <tuple>

#include "geores/ops/torch.h"

namespace geores::python {

using torch::Tensor;

// Refuses arguments that do not fit x; sizes may be symbols.
void check_mapping(const Tensor& x, const Tensor& fn, const Tensor& scale, const Tensor& base);
void check_head(const Tensor& x, const Tensor& fn, const Tensor& scale, const Tensor& base);
void check_weights(const Tensor& x, const char* name, const Tensor& weights, int64_t axes);
void check_branch(const Tensor& x, const Tensor& f);

struct MhcMapping {
  Tensor pre, post, comb;
};
MhcMapping mhc_mapping(const Tensor& x, const Tensor& fn, const Tensor& scale, const Tensor& base,
                       int64_t iterations, double norm_eps, double eps);

// Σ_k pre_k x_k in the mapping's type, rounded once to that of x: (..., C).
Tensor mhc_read(const Tensor& x, const Tensor& pre);

// post_k f + Σ_j comb[j, k] x_j in the mapping's type, rounded once to that of x.
Tensor mhc_write(const Tensor& x, const Tensor& f, const Tensor& post, const Tensor& comb);

// The end of a stack: Σ_k (σ(scale · m_k + base_k) + eps) x_k, fn (n, n·C), base (n), scale (1).
Tensor mhc_head(const Tensor& x, const Tensor& fn, const Tensor& scale, const Tensor& base,
                double norm_eps, double eps);

// One site of V4.1: the write of the sublayer before it, then its own mapping, then the read with the
// weights of the site before it.
//   x' = write(x, f, post, comb), u = read(x', pre), and the mapping of x'
struct MhcSite {
  Tensor x, u;
  MhcMapping mapping;
};
MhcSite mhc_site(const Tensor& x, const Tensor& f, const Tensor& pre, const Tensor& post,
                 const Tensor& comb, const Tensor& fn, const Tensor& scale, const Tensor& base,
                 int64_t iterations, double norm_eps, double eps);

}  // namespace geores::python
