// Products and decompositions of matrices of any size, compiled once. Eigen's templates for them take
// seconds of compile time in every file that uses them: this folder and spectrum/ use Eigen/Core and
// these functions, and write products of a few streams as lazyProduct.
#pragma once

#include <Eigen/Core>

namespace geores::spectral {

Eigen::MatrixXd product(const Eigen::MatrixXd& a, const Eigen::MatrixXd& b);
void set_product(const Eigen::MatrixXd& a, const Eigen::MatrixXd& b, Eigen::MatrixXd& c);  // c = ab

Eigen::MatrixXcd inverse(const Eigen::MatrixXcd& a);
Eigen::MatrixXd solve(const Eigen::MatrixXd& a, const Eigen::MatrixXd& b);               // ax = b
Eigen::VectorXcd solve_hermitian(const Eigen::MatrixXcd& a, const Eigen::VectorXcd& b);  // a > 0

// Q of A = QR, as many columns as A, with the signs that make R's diagonal positive: unique.
Eigen::MatrixXd orthonormal_columns(const Eigen::MatrixXd& a);

Eigen::VectorXd symmetric_eigenvalues(
    const Eigen::MatrixXd& a);  // increasing; reads the lower half

}  // namespace geores::spectral
