#include "geores/spectral/printed_equation.h"

#include <memory>
#include <vector>

#include "geores/base/refusal.h"
#include "geores/spectral/algebra/decompositions.h"

namespace geores::spectral {
namespace {

class PrintedEquation {
 public:
  explicit PrintedEquation(const Chain& chain)
      : chain_(chain), t_(Eigen::VectorXcd::Zero(static_cast<Eigen::Index>(chain.size()))) {}

  Complex solve(Complex w) {
    if (!started_) {
      for (double lift = 8; lift > 1e-2; lift /= 1.5) step(w + Complex(0, lift));
      started_ = true;
    }
    return step(w);
  }

 private:
  Complex step(Complex w) {
    Complex answer = 0;
    const auto closure = [&](const Eigen::VectorXcd& t, Eigen::VectorXcd& out) {
      answer = evaluate(w, t, out);
    };
    const auto done = solve_fixed_point(
        closure, t_, {.tolerance = 1e-9, .rounding = 1e-7, .max_iterations = 5000, .memory = 0},
        Keep::Anywhere);
    refuse_unless(done.converged, "spectral",
                  "the equation as printed has no reachable fixed point at s = {}, eta = {}",
                  w.real(), w.imag());
    return answer;
  }

  Complex evaluate(Complex w, const Eigen::VectorXcd& t, Eigen::VectorXcd& out) const {
    const auto n = chain_.front().mixer.rows();
    const auto depth = chain_.size();
    const Eigen::MatrixXcd identity = Eigen::MatrixXcd::Identity(n, n);
    std::vector<Eigen::MatrixXcd> coupling(depth), before(depth);  // C_l, Q_l
    Eigen::MatrixXcd product = identity;
    for (std::size_t l = 0; l < depth; ++l) {
      before[l] = product;
      coupling[l] = chain_[l].mixer + chain_[l].sigma2 * t[static_cast<Eigen::Index>(l)] * identity;
      product = coupling[l].lazyProduct(product).eval();
    }
    const Eigen::MatrixXcd resolvent =
        inverse(w * w * identity - product.transpose().lazyProduct(product));
    const Eigen::MatrixXcd middle = product.lazyProduct(resolvent);
    Eigen::MatrixXcd after = identity;  // P_l
    out.resize(t.size());
    for (std::size_t l = depth; l-- > 0;) {
      const Eigen::MatrixXcd rest = middle.lazyProduct(before[l].transpose());
      out[static_cast<Eigen::Index>(l)] =
          after.transpose().lazyProduct(rest).trace() / static_cast<double>(n);
      after = after.lazyProduct(coupling[l]).eval();
    }
    return w * resolvent.trace() / static_cast<double>(n);
  }

  Chain chain_;
  Eigen::VectorXcd t_;
  bool started_ = false;
};

}  // namespace

ResolventFactory printed_resolvent(const Chain& chain) {
  check(chain);
  for (const auto& layer : chain) {
    refuse_unless(!layer.branch, "spectral",
                  "the equation as printed supports plain branches only");
  }
  return [chain]() -> Resolvent {
    auto equation = std::make_shared<PrintedEquation>(chain);
    return [equation](Complex w) { return equation->solve(w); };
  };
}

}  // namespace geores::spectral
