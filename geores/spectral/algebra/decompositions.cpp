#include "geores/spectral/algebra/decompositions.h"

#include <Eigen/Cholesky>
#include <Eigen/Eigenvalues>
#include <Eigen/LU>
#include <Eigen/QR>
#include <complex>

namespace geores::spectral {

using Eigen::MatrixXcd;
using Eigen::MatrixXd;

MatrixXd product(const MatrixXd& a, const MatrixXd& b) { return a * b; }

void set_product(const MatrixXd& a, const MatrixXd& b, MatrixXd& c) { c.noalias() = a * b; }

MatrixXcd inverse(const MatrixXcd& a) { return a.partialPivLu().inverse(); }

MatrixXd solve(const MatrixXd& a, const MatrixXd& b) { return a.partialPivLu().solve(b); }

Eigen::VectorXcd solve_hermitian(const MatrixXcd& a, const Eigen::VectorXcd& b) {
  return a.ldlt().solve(b);
}

MatrixXd orthonormal_columns(const MatrixXd& a) {
  const Eigen::HouseholderQR<MatrixXd> qr(a);
  const MatrixXd q = qr.householderQ() * MatrixXd::Identity(a.rows(), a.cols());
  const Eigen::VectorXd signs = qr.matrixQR().diagonal().head(a.cols()).unaryExpr(
      [](double x) { return x < 0 ? -1.0 : 1.0; });
  return q * signs.asDiagonal();
}

Eigen::VectorXd symmetric_eigenvalues(const MatrixXd& a) {
  return Eigen::SelfAdjointEigenSolver<MatrixXd>(a, Eigen::EigenvaluesOnly).eigenvalues();
}

}  // namespace geores::spectral
