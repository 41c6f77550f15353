#include "geores/spectral/chain_equation.h"

#include <cmath>
#include <utility>
#include <vector>

#include "geores/base/refusal.h"

namespace geores::spectral {

struct ChainEquation::Sweep {
  virtual ~Sweep() = default;
  // x = (a, b) in, y = what the closure makes of it; returns tr_n R[x₀].
  virtual Complex evaluate(Complex w, const Eigen::VectorXcd& x, Eigen::VectorXcd& y) = 0;
};

namespace {

template <int N>
class SweepOf final : public ChainEquation::Sweep {
  using Block = Eigen::Matrix<Complex, N, N>;
  using Real = Eigen::Matrix<double, N, N>;

 public:
  explicit SweepOf(const Chain& chain) : depth_(static_cast<Eigen::Index>(chain.size())) {
    const auto n = chain.front().mixer.rows();
    identity_ = Real::Identity(n, n);
    for (const auto& [mixer, sigma2, branch] : chain) {
      if (branch) {
        layers_.push_back({mixer, sigma2, branch->spread * branch->spread.transpose(),
                           branch->gather * branch->gather.transpose(), 1});
      } else {
        layers_.push_back({mixer, sigma2, identity_, identity_, 1 / static_cast<double>(n)});
      }
    }
    left_of_x_.resize(layers_.size());
    left_of_y_.resize(layers_.size());
  }

  Complex evaluate(Complex w, const Eigen::VectorXcd& x, Eigen::VectorXcd& y) override {
    const auto a = x.head(depth_);
    const auto b = x.tail(depth_);
    const auto last = depth_ - 1;
    const auto node_x = [&](Eigen::Index l) -> Block {
      return (l == 0 ? w : 0) * identity_ - (layers_[l].sigma2 * b[l]) * layers_[l].in;
    };
    const auto node_y = [&](Eigen::Index l) -> Block {
      return (l == last ? w : 0) * identity_ - (layers_[l].sigma2 * a[l]) * layers_[l].out;
    };
    y.resize(2 * depth_);
    // Forward: the Schur complement of everything before a node, as seen by that node.
    left_of_x_[0].setZero(identity_.rows(), identity_.cols());
    for (Eigen::Index l = 0; l < depth_; ++l) {
      const auto& mixer = layers_[l].mixer;
      left_of_y_[l] = mixer * inverse(node_x(l) - left_of_x_[l]) * mixer.transpose();
      if (l < last) left_of_x_[l + 1] = inverse(node_y(l) - left_of_y_[l]);
    }
    // Backward: the same from the other end; both sides together give the diagonal blocks of R.
    Complex answer = 0;
    Block right = Block::Zero(identity_.rows(), identity_.cols());
    for (Eigen::Index l = last; l >= 0; --l) {
      const auto& p = layers_[l];
      const Block at_y = node_y(l) - right;
      y[depth_ + l] = p.average * overlap(p.out, inverse(at_y - left_of_y_[l]));
      right = p.mixer.transpose() * inverse(at_y) * p.mixer;
      const Block at_x = node_x(l) - right;
      const Block full = inverse(at_x - left_of_x_[l]);
      y[l] = p.average * overlap(p.in, full);
      if (l == 0) answer = full.trace() / static_cast<double>(identity_.rows());
      right = inverse(at_x);
    }
    return answer;
  }

 private:
  struct Prepared {
    Real mixer;
    double sigma2;
    Real out, in;    // C and D of the header
    double average;  // 1/n where C = D = I, so that the overlap is a normalised trace
  };

  // Eigen's closed form for n <= 4 loses half of the digits on the nearly singular blocks that
  // doubly stochastic mixers make; a pivoted LU does not.
  static Block inverse(const Block& block) { return block.partialPivLu().inverse(); }

  static Complex overlap(const Real& weights, const Block& block) {
    return weights.template cast<Complex>().cwiseProduct(block).sum();
  }

  Eigen::Index depth_;
  Real identity_;
  std::vector<Prepared> layers_;
  std::vector<Block> left_of_x_, left_of_y_;
};

std::unique_ptr<ChainEquation::Sweep> make_sweep(const Chain& chain) {
  switch (chain.front().mixer.rows()) {
#if !defined(__wasm__)  // every fixed size is 30 kilobytes of a page
    case 1:
      return std::make_unique<SweepOf<1>>(chain);
    case 2:
      return std::make_unique<SweepOf<2>>(chain);
    case 3:
      return std::make_unique<SweepOf<3>>(chain);
    case 8:
      return std::make_unique<SweepOf<8>>(chain);
#endif
    case 4:
      return std::make_unique<SweepOf<4>>(chain);
    default:
      return std::make_unique<SweepOf<Eigen::Dynamic>>(chain);
  }
}

}  // namespace

ChainEquation::ChainEquation(Chain chain, Convergence convergence) : convergence_(convergence) {
  check(chain);
  sweep_ = make_sweep(chain);
  unknowns_ = Eigen::VectorXcd::Constant(2 * static_cast<Eigen::Index>(chain.size()), {0, -1});
}

ChainEquation::~ChainEquation() = default;
ChainEquation::ChainEquation(ChainEquation&&) noexcept = default;

Complex ChainEquation::solve(Complex w) {
  refuse_unless(std::isfinite(w.real()) && std::isfinite(w.imag()) && w.imag() > 0, "spectral",
                "the chain equation needs a finite w with Im w > 0, got {} + {}i", w.real(),
                w.imag());
  Complex answer = 0;
  last_ = solve_fixed_point(
      [&](const Eigen::VectorXcd& x, Eigen::VectorXcd& y) { answer = sweep_->evaluate(w, x, y); },
      unknowns_, convergence_);
  if (!last_.converged) {
    unknowns_.setConstant({0, -1});
    refuse_unless(
        std::isfinite(last_.residual), "spectral",
        "the chain is singular at s = {}, eta = {}: a mixer that cannot be inverted needs "
        "a branch with sigma2 > 0, a deep contracting chain a larger s or eta",
        w.real(), w.imag());
    refuse("spectral",
           "the fixed point did not converge at s = {}, eta = {}: residual {} after {} "
           "iterations",
           w.real(), w.imag(), last_.residual, last_.iterations);
  }
  return answer;
}

ResolventFactory chain_resolvent(const Chain& chain, const Convergence& convergence) {
  check(chain);
  return [chain, convergence]() -> Resolvent {
    // std::function copies; the solver is shared by the copies of one resolvent.
    auto equation = std::make_shared<ChainEquation>(chain, convergence);
    return [equation](Complex w) { return equation->solve(w); };
  };
}

}  // namespace geores::spectral
