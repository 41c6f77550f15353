#include "geores/spectral/layer.h"

#include <cmath>

#include "geores/base/refusal.h"
#include "geores/spectral/algebra/decompositions.h"

namespace geores::spectral {
namespace {

// A X Aᵀ
Eigen::MatrixXd conjugated(const Eigen::MatrixXd& a, const Eigen::MatrixXd& x) {
  return product(product(a, x), a.transpose());
}

}  // namespace

void check(const Chain& chain) {
  refuse_unless(!chain.empty(), "spectral", "depth must be >= 1, got 0");
  const auto n = chain.front().mixer.rows();
  refuse_unless(n >= 1, "spectral", "a mixer has no rows");
  for (std::size_t l = 0; l < chain.size(); ++l) {
    const auto& [mixer, sigma2, branch] = chain[l];
    refuse_unless(mixer.rows() == mixer.cols(), "spectral",
                  "mixer of layer {} must be square, got {} x {}", l + 1, mixer.rows(),
                  mixer.cols());
    refuse_unless(mixer.rows() == n, "spectral", "mixer of layer {} has {} streams, layer 1 has {}",
                  l + 1, mixer.rows(), n);
    refuse_unless(mixer.allFinite(), "spectral", "mixer of layer {} has a NaN or infinite entry",
                  l + 1);
    refuse_unless(std::isfinite(sigma2) && sigma2 >= 0, "spectral",
                  "sigma2 of layer {} must be finite and >= 0, got {}", l + 1, sigma2);
    if (!branch) continue;
    refuse_unless(branch->spread.size() == n && branch->gather.size() == n, "spectral",
                  "branch of layer {} needs vectors of length {}, got {} and {}", l + 1, n,
                  branch->spread.size(), branch->gather.size());
    refuse_unless(branch->spread.allFinite() && branch->gather.allFinite(), "spectral",
                  "branch of layer {} has a NaN or infinite entry", l + 1);
  }
}

Chain make_chain(const std::vector<Eigen::MatrixXd>& mixers, int depth, double sigma2_total) {
  refuse_unless(depth >= 1, "spectral", "depth must be >= 1, got {}", depth);
  refuse_unless(!mixers.empty(), "spectral", "no mixer given");
  refuse_unless(std::isfinite(sigma2_total) && sigma2_total >= 0, "spectral",
                "total sigma2 must be finite and >= 0, got {}", sigma2_total);
  Chain chain;
  for (int l = 0; l < depth; ++l) {
    chain.push_back({mixers[l % mixers.size()], sigma2_total / depth, std::nullopt});
  }
  check(chain);
  return chain;
}

// K = JJᵀ after l layers, as n x n blocks K_ij (p, p). With k = tr_p E K_ij (n, n) and the tensor
// Q[ij, kl] = tr_p E K_ij K_kl, one more layer Y K Yᵀ contracts neighbouring X's of the cyclic word
// Y K Yᵀ · Y K Yᵀ; contractions across (X with the X of the other K on the same side) are O(1/p).
Moments exact_moments(const Chain& chain) {
  check(chain);
  const int n = static_cast<int>(chain.front().mixer.rows());
  const auto at = [n](int i, int j) { return i * n + j; };
  Eigen::MatrixXd k = Eigen::MatrixXd::Identity(n, n);
  Eigen::MatrixXd q = Eigen::MatrixXd::Zero(n * n, n * n);  // rows (i, j), columns (k, l)
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j) q(at(i, i), at(j, j)) = 1;
  }
  for (const auto& [mixer, sigma2, branch] : chain) {
    const Eigen::MatrixXd out =
        branch ? Eigen::MatrixXd(branch->spread.lazyProduct(branch->spread.transpose()))
               : Eigen::MatrixXd::Identity(n, n);
    const Eigen::MatrixXd in =
        branch ? Eigen::MatrixXd(branch->gather.lazyProduct(branch->gather.transpose()))
               : Eigen::MatrixXd(Eigen::MatrixXd::Identity(n, n) / n);
    const double gathered = in.cwiseProduct(k).sum();  // the part of X K Xᵀ on `out`, over σ²
    const Eigen::MatrixXd mixed = conjugated(mixer, k);
    // inner(a, d) = Σ_bc in_bc Q[ab, cd] and outer(b, c) = Σ_ad in_ad Q[ab, cd].
    Eigen::MatrixXd inner = Eigen::MatrixXd::Zero(n, n);
    Eigen::MatrixXd outer = Eigen::MatrixXd::Zero(n, n);
    for (int a = 0; a < n; ++a) {
      for (int b = 0; b < n; ++b) {
        for (int c = 0; c < n; ++c) {
          for (int d = 0; d < n; ++d) {
            inner(a, d) += in(b, c) * q(at(a, b), at(c, d));
            outer(b, c) += in(a, d) * q(at(a, b), at(c, d));
          }
        }
      }
    }
    const double both = in.cwiseProduct(inner).sum();
    const Eigen::MatrixXd inner_mixed = conjugated(mixer, inner);
    const Eigen::MatrixXd outer_mixed = conjugated(mixer, outer);
    Eigen::MatrixXd mixer2(n * n, n * n);  // A ⊗ A
    for (int i = 0; i < n; ++i) {
      for (int j = 0; j < n; ++j) mixer2.block(i * n, j * n, n, n) = mixer(i, j) * mixer;
    }
    q = conjugated(mixer2, q);
    for (int i = 0; i < n; ++i) {
      for (int j = 0; j < n; ++j) {
        for (int m = 0; m < n; ++m) {
          for (int l = 0; l < n; ++l) {
            q(at(i, j), at(m, l)) +=
                sigma2 * gathered * (out(i, j) * mixed(m, l) + out(m, l) * mixed(i, j)) +
                sigma2 * (out(j, m) * inner_mixed(i, l) + out(i, l) * outer_mixed(j, m)) +
                sigma2 * sigma2 *
                    (gathered * gathered * out(i, j) * out(m, l) + both * out(j, m) * out(i, l));
          }
        }
      }
    }
    k = mixed + sigma2 * gathered * out;
  }
  Moments moments{k.trace() / n, 0};
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j) moments.second += q(at(i, j), at(j, i)) / n;
  }
  return moments;
}

}  // namespace geores::spectral
