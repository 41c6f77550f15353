// Operations that write into existing tensors, for inference one token at a time: after the first
// call nothing is allocated. All tensors are contiguous float32 or float64 tensors on a CPU, of one
// dtype; there are no gradients.
#pragma once

#include "geores/ops/dense/normalized_linear.h"
#include "geores/ops/torch.h"

namespace geores::into {

using torch::Tensor;

// out (B, out) = x (B, in) Wᵀ (+ bias, if defined)
void linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor& out);

// out = GELU(x W₁ᵀ) W₂ᵀ
void perceptron(const Tensor& x, const Tensor& up, const Tensor& down, Tensor& out);

// x ← GELU(x)
void gelu(Tensor& x);

// out = LN(x) · weight
void layer_norm(const Tensor& x, const Tensor& weight, Tensor& out);

// out = each row of x, centred and divided by its deviation, or (RMSNorm) divided by sqrt(mean x² +
// ε): x (rows · width); the norm's weight and bias are not used
void normalize(const Tensor& x, int64_t width, const NormSpec& norm, Tensor& out);

// x ← x + factor y, x ← x + x y, to ← from
void add(Tensor& x, const Tensor& y, double factor = 1);
void add_product(Tensor& x, const Tensor& y);
void copy(const Tensor& from, Tensor& to);

// The mean of x and the count − 1 earlier values; `sum` holds their sum and is updated.
void running_mean(const Tensor& x, int64_t count, Tensor& sum, Tensor& mean);

// G (B, n, n) from the generators' outputs before activation: raw (B, 3n + 1) = [u | v | β | k] and
// the gate's logit (B, 1); see hybrid.h.
bool has_hybrid_operator(int64_t n);
void hybrid_operator(const Tensor& raw, const Tensor& logit, Tensor& g_operator);

// mixed = M x and out = LN(M x): m (B, n, n), x (B, n·d)
void mix_and_norm(const Tensor& m, const Tensor& x, const Tensor& weight, Tensor& mixed,
                  Tensor& out);

// out = LN(Σ_j read_j x_j), repeated k times for a weight (k·d): read (B, n), x (B, n·d)
void collect_and_norm(const Tensor& read, const Tensor& x, const Tensor& weight, Tensor& out);

// out_i = Σ_j res_ij x_j + write_i y_i: res (B, n, n), write (B, n), x, out (B, n·d); y (B, d), or
// (B, n·d) with one for each stream
void mix_and_write(const Tensor& res, const Tensor& x, const Tensor& write, const Tensor& y,
                   Tensor& out);

// v ← v ⊙ σ(logits)
void gate(const Tensor& logits, Tensor& v);

// x ← x + β ⊙ (v − αx), β = λ tanh(raw) + ε
void delta_update(const Tensor& raw, const Tensor& v, double alpha, double scale, double offset,
                  Tensor& x);

// c = Σ_j read_j x_j with the same read (n) for all tokens: x (B, n·d), c (B, d)
void collect(const Tensor& read, const Tensor& x, Tensor& c);

// x_j ← x_j + β k (v_j − kᵀx_j), k = y/‖y‖, β = 2σ(raw_0), v = raw_1 …: raw (B, 1 + n), y (B, d), x
// (B, n·d)
void delta_write(const Tensor& raw, const Tensor& y, Tensor& x);

// to = n copies of from, and to = the sum of n streams: (B, d), (B, n·d)
void repeat(const Tensor& from, Tensor& to);
void sum_streams(const Tensor& from, Tensor& to);

// 1 − ‖XXᵀ‖²_F/tr(XXᵀ)² of each row's n × d matrix: x (B, n·d) -> out (B, 1)
void stream_entropy(const Tensor& x, int64_t n, Tensor& out);

// Appends the keys and values of one position to a cache of `length` positions (B, h, capacity, d)
// and attends with its queries: qkv (B, 3·h·d) -> out (B, h·d).
void attend_next(const Tensor& qkv, int64_t length, Tensor& keys, Tensor& values, Tensor& out);

}  // namespace geores::into
