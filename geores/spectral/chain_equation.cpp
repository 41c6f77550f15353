#include "geores/spectral/chain_equation.h"

#include <cmath>
#include <utility>
#include <vector>

#include "geores/base/refusal.h"

namespace geores::spectral {

struct ChainEquation::Sweep {
  virtual ~Sweep() = default;
  // x = (a, b) in, y = the closure's result; returns tr_n R[x₀].
  virtual Complex evaluate(Complex w, const Eigen::VectorXcd& x, Eigen::VectorXcd& y) = 0;
};

namespace {

// Blocks of N × N, or of a size that is known when it runs and at most Most × Most.
template <int N, int Most = N>
class SweepOf final : public ChainEquation::Sweep {
  using Block = Eigen::Matrix<Complex, N, N, Eigen::ColMajor, Most, Most>;
  using Real = Eigen::Matrix<double, N, N, Eigen::ColMajor, Most, Most>;

 public:
  explicit SweepOf(const Chain& chain) : depth_(static_cast<Eigen::Index>(chain.size())) {
    const auto n = chain.front().mixer.rows();
    identity_ = Real::Identity(n, n);
    for (const auto& [mixer, sigma2, branch] : chain) {
      const Block a = mixer.template cast<Complex>();
      if (branch) {
        layers_.push_back({a, a.transpose(), sigma2,
                           branch->spread.lazyProduct(branch->spread.transpose()),
                           branch->gather.lazyProduct(branch->gather.transpose()), 1});
      } else {
        layers_.push_back(
            {a, a.transpose(), sigma2, identity_, identity_, 1 / static_cast<double>(n)});
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
      const auto& p = layers_[l];
      left_of_y_[l] = product(p.mixer, inverse(node_x(l) - left_of_x_[l]), p.transposed);
      if (l < last) left_of_x_[l + 1] = inverse(node_y(l) - left_of_y_[l]);
    }
    // Backward: the same from the other end; both sides together give the diagonal blocks of R.
    Complex answer = 0;
    Block right = Block::Zero(identity_.rows(), identity_.cols());
    for (Eigen::Index l = last; l >= 0; --l) {
      const auto& p = layers_[l];
      const Block at_y = node_y(l) - right;
      y[depth_ + l] = p.average * overlap(p.out, inverse(at_y - left_of_y_[l]));
      right = product(p.transposed, inverse(at_y), p.mixer);
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
    Block mixer, transposed;
    double sigma2;
    Real out, in;    // C and D of the header
    double average;  // 1/n where C = D = I, so that the overlap is a normalised trace
  };

  // Sums over columns as they are written: Eigen's products of large matrices, which blocks of a few
  // streams do not need, take longer to compile than the rest of this folder.
  static Block product(const Block& left, const Block& middle, const Block& right) {
    const Block both = left.lazyProduct(middle);
    return both.lazyProduct(right);
  }

  // Gauss–Jordan elimination with the largest pivot of each row, on columns. Eigen's closed form for
  // n <= 4 loses half of the digits on the nearly singular blocks that doubly stochastic mixers
  // make; its LU is made for large matrices, see product().
  static Block inverse(Block a) {
    const auto n = a.rows();
    Block x = Block::Identity(n, n);
    for (Eigen::Index p = 0; p < n; ++p) {
      auto pivot = p;
      for (auto j = p + 1; j < n; ++j)
        if (std::norm(a(p, j)) > std::norm(a(p, pivot))) pivot = j;
      if (pivot != p) {
        a.col(p).swap(a.col(pivot));
        x.col(p).swap(x.col(pivot));
      }
      const Complex scale = 1.0 / a(p, p);
      a.col(p) *= scale;
      x.col(p) *= scale;
      for (Eigen::Index j = 0; j < n; ++j) {
        if (j == p) continue;
        const Complex factor = a(p, j);
        a.col(j) -= factor * a.col(p);
        x.col(j) -= factor * x.col(p);
      }
    }
    return x;
  }

  static Complex overlap(const Real& weights, const Block& block) {
    return weights.template cast<Complex>().cwiseProduct(block).sum();
  }

  Eigen::Index depth_;
  Real identity_;
  std::vector<Prepared> layers_;
  std::vector<Block> left_of_x_, left_of_y_;
};

std::unique_ptr<ChainEquation::Sweep> make_sweep(const Chain& chain) {
  const auto streams = chain.front().mixer.rows();
  if (streams == 4) return std::make_unique<SweepOf<4>>(chain);
#if !defined(__wasm__)  // every size is 30 kilobytes of a page
  if (streams <= 8) return std::make_unique<SweepOf<Eigen::Dynamic, 8>>(chain);
#endif
  return std::make_unique<SweepOf<Eigen::Dynamic>>(chain);
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
