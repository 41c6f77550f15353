// The symmetric group S_n, n <= 6, by tables: its elements in lexicographic order (the identity is
// 0), products, and its irreducible representations in Young's orthogonal form. The regular
// representation (n! x n!) holds each irreducible one as often as its dimension, so that
// eigenvalues of an average of group elements can be found in blocks of dimension 1 … 16 instead of
// 24 … 720.
#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <vector>

namespace geores::spectral {

class SymmetricGroup {
 public:
  explicit SymmetricGroup(int n);  // throws for n outside 2 … 6

  int n() const { return n_; }
  int order() const { return static_cast<int>(elements_.size()); }
  const std::vector<int>& element(int g) const { return elements_[g]; }   // i ↦ element(g)[i]
  int product(int g, int h) const { return products_[g * order() + h]; }  // first h, then g

  bool generates(const std::vector<int>& generators) const;

  // One list per irreducible representation, trivial one left out: matrix of each element.
  const std::vector<std::vector<Eigen::MatrixXd>>& irreducibles() const { return irreducibles_; }

 private:
  int n_;
  std::vector<std::vector<int>> elements_;
  std::vector<std::uint16_t> products_;
  std::vector<std::vector<Eigen::MatrixXd>> irreducibles_;
};

}  // namespace geores::spectral
