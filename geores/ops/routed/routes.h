// How the streams of one token are mixed, read and written.
#pragma once

#include "geores/ops/torch.h"

namespace geores {

using torch::Tensor;

struct Routes {
  Tensor res;    // (B, T, n, n)
  Tensor read;   // (B, T, n): the sublayer reads Σ_j read_j x_j
  Tensor write;  // (B, T, n): stream i gets write_i times the sublayer's output
};

struct CayleyRouting {
  double temperature = 1.0;
  double alpha = 0.1;
  int64_t iterations = 2;
  bool exact = false;
};

// JPmHC (arXiv:2602.18308): raw (B, T, 3n²) = [H̃_pre | H̃_post | H̃_res] ->
//   read   column means of softmax(H̃_pre/τ) over the last axis
//   write  row sums of softmax(H̃_post/τ) over the first axis
//   res    iterative (or exact) Cayley map of W = H̃_res − H̃_resᵀ
Routes cayley_routes(const Tensor& raw, int64_t n, const CayleyRouting& routing);

// Only read and write, by the same formulas: raw (B, T, 2n²) = [H̃_pre | H̃_post].
struct ReadWrite {
  Tensor read, write;
};
ReadWrite softmax_read_write(const Tensor& raw, int64_t n, double temperature = 1.0);

// EΔ-Stream: the same read and write, and res = I. raw (B, T, 2n²) = [H̃_pre | H̃_post].
struct StreamRouting {};

}  // namespace geores
