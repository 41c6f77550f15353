// Muon (Jordan et al. 2024, https://kellerjordan.github.io/posts/muon): the step of a matrix is its
// mean gradient with all singular values brought close to 1 by five Newton–Schulz iterations.
// Scaled by 0.2·√max(rows, columns) (Liu et al., arXiv:2502.16982) it is about as long as a step of
// AdamW, so learning rate and decay keep their meaning:
//   M ← β₁M + (1 − β₁)G,   P ← P − lr·decay·P − lr·0.2·√max(rows, columns)·orthogonalised(M)
// Muon updates the matrices of the blocks that have weight decay, AdamW everything else. AdamW's
// first moment is M, so Muon has no state of its own and a run resumes as before.
#pragma once

#include <vector>

#include "geores/train/optimizer/flat_parameters.h"

namespace geores {

// Matrices are (..., rows, columns).
Tensor orthogonalised(const Tensor& matrices);

class Muon {
 public:
  Muon(FlatParameters& parameters, const Tensor& first_moment, double weight_decay);

  // Wraps a step of AdamW over all parameters: keeps the matrices' values and replaces AdamW's
  // result by Muon's. The learning rate is a double or a tensor of one value.
  void before_adamw();
  template <class Number>
  void after_adamw(const Number& learning_rate);

 private:
  // Matrices of one shape; views of the flat buffers.
  struct Group {
    std::vector<Tensor> values, moments;
    Tensor kept;  // (count, rows, columns)
    double scale;
  };

  FlatParameters& parameters_;
  double weight_decay_;
  std::vector<Group> groups_;
};

}  // namespace geores
