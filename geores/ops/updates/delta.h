// The delta rule on wide residual streams on a GPU (residual/ddl/ddl.h).
#pragma once

#include <memory>
#include <optional>

#include "geores/ops/torch.h"

namespace geores {

using torch::Tensor;

// Reads a state and writes to it:
//     if (auto delta = DeltaStreams::make(weight, x)) return delta->write(f(delta->read()), l);
// make() returns nullopt where no kernel fits; the connection then runs composed.
//
// The backward pass of write() leaves its part of the state's gradient to that of make(), which
// writes all of it. The gradient of the carried state is therefore correct only inside of this
// class, and write() may be called only once.
class DeltaStreams {
 public:
  // read() is LN(c) with c = Σ_j weight_j X_j, and write() uses l = [β; V] c + bias: one kernel
  // each way.
  struct Reading {
    Tensor weight, norm_weight;                 // (n), (d)
    Tensor beta, beta_bias, value, value_bias;  // (1, d), (1), (n, d), (n)
  };
  static std::optional<DeltaStreams> make(const Reading& reading, const Tensor& x);
  Tensor write(const Tensor& y) { return write(y, l_); }

  // weight (n), the same for all tokens; x (B, T, n, d).
  static std::optional<DeltaStreams> make(const Tensor& weight, const Tensor& x);

  const Tensor& read() const { return read_; }  // Σ_j weight_j X_j, or its norm: (B, T, d)

  // X_j + β (v_j − ⟨k, X_j⟩) k with k = y/‖y‖, β = 2 σ(l_0), v_j = l_{1 + j}: y (B, T, d),
  // l (B, T, 1 + n) -> (B, T, n, d).
  Tensor write(const Tensor& y, const Tensor& l);

  // The values that the backward pass of write() passes to that of make().
  struct Left {
    Tensor y, dl;
    bool written = false;
  };

 private:
  DeltaStreams(Tensor read, Tensor l, Tensor carried, std::shared_ptr<Left> left);

  Tensor read_, l_, carried_;  // l_ is undefined if write() receives it
  std::shared_ptr<Left> left_;
};

}  // namespace geores
