#include "lab/spectrum/symmetric_group.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "geores/base/error.h"
#include "geores/spectral/algebra/decompositions.h"

namespace geores::spectral {
namespace {

using Tableau = std::vector<int>;  // row of each of the numbers 0 … n − 1

void partitions(int rest, int largest, std::vector<int>& rows, std::vector<std::vector<int>>& out) {
  if (rest == 0) out.push_back(rows);
  for (int row = std::min(rest, largest); row >= 1; --row) {
    rows.push_back(row);
    partitions(rest - row, row, rows, out);
    rows.pop_back();
  }
}

// Standard tableaux: every prefix of the numbers fills a partition.
void fill(const std::vector<int>& shape, int n, std::vector<int>& filled, Tableau& tableau,
          std::vector<Tableau>& out) {
  if (static_cast<int>(tableau.size()) == n) {
    out.push_back(tableau);
    return;
  }
  for (std::size_t row = 0; row < shape.size(); ++row) {
    if (filled[row] == shape[row] || (row > 0 && filled[row] == filled[row - 1])) continue;
    ++filled[row];
    tableau.push_back(static_cast<int>(row));
    fill(shape, n, filled, tableau, out);
    tableau.pop_back();
    --filled[row];
  }
}

int content(const Tableau& tableau, int number) {  // column − row
  const auto column = std::count(tableau.begin(), tableau.begin() + number, tableau[number]);
  return static_cast<int>(column) - tableau[number];
}

// Matrices of the transpositions (i, i+1): 1/r on the diagonal, √(1 − 1/r²) between a tableau and
// the one with i and i+1 exchanged, r their axial distance.
std::vector<Eigen::MatrixXd> adjacent_transpositions(const std::vector<int>& shape, int n) {
  std::vector<Tableau> tableaux;
  std::vector<int> filled(shape.size(), 0);
  Tableau tableau;
  fill(shape, n, filled, tableau, tableaux);
  const auto dimension = static_cast<Eigen::Index>(tableaux.size());
  std::vector<Eigen::MatrixXd> result;
  for (int i = 0; i + 1 < n; ++i) {
    Eigen::MatrixXd matrix = Eigen::MatrixXd::Zero(dimension, dimension);
    for (Eigen::Index t = 0; t < dimension; ++t) {
      const double distance = content(tableaux[t], i + 1) - content(tableaux[t], i);
      matrix(t, t) = 1 / distance;
      Tableau exchanged = tableaux[t];
      std::swap(exchanged[i], exchanged[i + 1]);
      const auto found = std::find(tableaux.begin(), tableaux.end(), exchanged);
      if (found != tableaux.end() && exchanged != tableaux[t]) {
        matrix(found - tableaux.begin(), t) = std::sqrt(1 - 1 / (distance * distance));
      }
    }
    result.push_back(matrix);
  }
  return result;
}

}  // namespace

SymmetricGroup::SymmetricGroup(int n) : n_(n) {
  require(n >= 2 && n <= 6, "spectral-gap", "streams must be 2 ... 6, got {}", n);
  std::vector<int> element(n);
  std::iota(element.begin(), element.end(), 0);
  std::map<std::vector<int>, int> index;
  do {
    index[element] = order();
    elements_.push_back(element);
  } while (std::next_permutation(element.begin(), element.end()));
  products_.resize(static_cast<std::size_t>(order()) * order());
  for (int g = 0; g < order(); ++g) {
    for (int h = 0; h < order(); ++h) {
      for (int i = 0; i < n; ++i) element[i] = elements_[g][elements_[h][i]];
      products_[g * order() + h] = static_cast<std::uint16_t>(index[element]);
    }
  }
  // Every element is reached from the identity by adjacent transpositions, breadth first.
  std::vector<int> reached{0}, letter{-1}, parent{-1}, reached_at(order(), -1);
  reached_at[0] = 0;
  for (std::size_t head = 0; head < reached.size(); ++head) {
    for (int i = 0; i + 1 < n; ++i) {
      std::vector<int> swapped = elements_[0];
      std::swap(swapped[i], swapped[i + 1]);
      const int next = product(index[swapped], reached[head]);
      if (reached_at[next] >= 0) continue;
      reached_at[next] = static_cast<int>(reached.size());
      reached.push_back(next);
      letter.push_back(i);
      parent.push_back(reached[head]);
    }
  }
  std::vector<std::vector<int>> shapes;
  std::vector<int> rows;
  partitions(n, n, rows, shapes);
  for (const auto& shape : shapes) {
    if (shape.size() == 1) continue;  // trivial
    const auto letters = adjacent_transpositions(shape, n);
    std::vector<Eigen::MatrixXd> matrices(order());
    matrices[0] = Eigen::MatrixXd::Identity(letters[0].rows(), letters[0].rows());
    for (std::size_t k = 1; k < reached.size(); ++k) {
      matrices[reached[k]] = spectral::product(letters[letter[k]], matrices[parent[k]]);
    }
    irreducibles_.push_back(std::move(matrices));
  }
  // Small ones first: they rule most sets out.
  std::stable_sort(irreducibles_.begin(), irreducibles_.end(),
                   [](const auto& a, const auto& b) { return a[0].rows() < b[0].rows(); });
}

bool SymmetricGroup::generates(const std::vector<int>& generators) const {
  // In a finite group products alone reach every inverse.
  std::vector<char> seen(order(), 0);
  std::vector<std::uint16_t> reached{0};
  reached.reserve(order());
  seen[0] = 1;
  for (std::size_t head = 0; head < reached.size(); ++head) {
    for (const int g : generators) {
      const auto next = products_[g * order() + reached[head]];
      if (seen[next]) continue;
      seen[next] = 1;
      reached.push_back(next);
    }
  }
  return static_cast<int>(reached.size()) == order();
}

}  // namespace geores::spectral
