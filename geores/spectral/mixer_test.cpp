#include "geores/spectral/mixer.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "geores/base/npy.h"
#include "geores/base/safetensors.h"
#include "geores/base/testing.h"
#include "geores/spectral/mixer_file.h"

namespace geores::spectral {
namespace {

using Eigen::MatrixXd;

double orthogonality_defect(const MatrixXd& q) {
  return (q.transpose() * q - MatrixXd::Identity(q.cols(), q.cols())).norm();
}

void expect_sums_are_one(const MatrixXd& a, const char* name) {
  EXPECT_LT((a.rowwise().sum().array() - 1).abs().maxCoeff(), 1e-12) << name;
  EXPECT_LT((a.colwise().sum().array() - 1).abs().maxCoeff(), 1e-12) << name;
}

TEST(Mixer, KeepsTheConstraintOfItsKind) {
  for (const int n : {1, 2, 3, 4, 7, 8}) {
    const MatrixXd identity = MatrixXd::Identity(n, n);
    EXPECT_EQ(make_mixer("identity", n, 1), identity);
    const auto bistochastic = make_mixer("bistochastic", n, 1);
    expect_sums_are_one(bistochastic, "bistochastic");
    EXPECT_GT(bistochastic.minCoeff(), 0);
    EXPECT_LE(std::abs(bistochastic.determinant()), 1 + 1e-12);
    EXPECT_LT(orthogonality_defect(make_mixer("orthogonal", n, 1)), 1e-13);
    const auto permutation = make_mixer("permutation", n, 1);
    expect_sums_are_one(permutation, "permutation");
    EXPECT_GE(permutation.minCoeff(), 0);
    const auto shc = make_mixer("shc", n, 1);
    expect_sums_are_one(shc, "shc");
    EXPECT_NEAR(shc.operatorNorm(), 1, 1e-12);
    const auto projector = make_mixer("grassmann", n, 1);
    EXPECT_LT((projector * projector - projector).norm(), 1e-13);
    EXPECT_NEAR(projector.trace(), std::max(1, n / 2), 1e-13);
  }
}

TEST(Mixer, ShcIsClosedUnderProducts) {
  MatrixXd product = MatrixXd::Identity(4, 4);
  for (int l = 0; l < 200; ++l) product = (make_mixer("shc", 4, 2, l) * product).eval();
  expect_sums_are_one(product, "product");
  EXPECT_NEAR(product.operatorNorm(), 1, 1e-12);
}

TEST(Mixer, CayleyDefectFollowsTheExactFormulaForTwoSteps) {
  // YᵀY − I = −M⁴/4 − M⁶/16 with M = αW; W is what zero steps show: Y₀ = I + αW.
  const MatrixXd identity = MatrixXd::Identity(4, 4);
  const MatrixXd m = make_mixer("cayley:0", 4, 5) - identity;
  const MatrixXd y = make_mixer("cayley", 4, 5);
  const MatrixXd m4 = m * m * m * m;
  EXPECT_LT((y.transpose() * y - identity + m4 / 4 + m4 * m * m / 16).norm(), 1e-14);
  EXPECT_LT(orthogonality_defect(make_mixer("cayley:40", 4, 5)), 1e-13);
}

TEST(Mixer, DependsOnSeedAndLayerOnly) {
  EXPECT_EQ(make_mixer("gaussian", 4, 7, 3), make_mixer("gaussian", 4, 7, 3));
  EXPECT_NE(make_mixer("gaussian", 4, 7, 3), make_mixer("gaussian", 4, 7, 4));
  EXPECT_NE(make_mixer("gaussian", 4, 7, 3), make_mixer("gaussian", 4, 8, 3));
}

TEST(Mixer, EveryKindListedCanBeMade) {
  for (const auto& kind : mixer_kinds()) {
    EXPECT_TRUE(make_mixer(std::string(kind.name), 4, 1).allFinite()) << kind.name;
  }
}

TEST(Mixer, BadNamesAndSizesAreRefusedInOneLine) {
  EXPECT_EQ(refusal([] { make_mixer("orthogonl", 4, 1); }),
            "[mixer] unknown mixer 'orthogonl', did you mean 'orthogonal'?");
  EXPECT_EQ(refusal([] { make_mixer("identity", 0, 1); }), "[mixer] streams must be >= 1, got 0");
  EXPECT_EQ(refusal([] { make_mixer("cayley:-1", 4, 1); }),
            "[mixer] cayley:s needs a number of steps 0 ... 1000, got 'cayley:-1'");
  EXPECT_NE(refusal([] { make_mixer("cayley:", 4, 1); }), "");
  EXPECT_NE(refusal([] { make_mixer("cayley:2x", 4, 1); }), "");
}

class MixerFile : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) {
    const auto path = folder_.path() / name;
    std::ofstream(path) << text;
    return path.string();
  }
  std::string why(const std::string& path) {
    const auto text = refusal([&] { load_mixer(path); });
    return text.empty() ? text : text.substr(path.size() + 3);  // without "[path] "
  }
  TemporaryFolder folder_;
};

TEST_F(MixerFile, ReadsTextAndNpy) {
  MatrixXd expected(2, 2);
  expected << 1, 2, -3, 4.5;
  EXPECT_EQ(load_mixer(write("a.txt", "# a comment\n1, 2\n\n-3\t4.5 # more\n")), expected);
  const std::vector<double> values{1, 2, -3, 4.5};
  const auto bytes = std::as_bytes(std::span(values));
  const auto path = folder_.path() / "a.npy";
  save_npy(path, {Dtype::f64, {2, 2}, {bytes.begin(), bytes.end()}});
  EXPECT_EQ(load_mixer(path), expected);
  const std::vector<float> small{1, 2, -3, 4.5};
  const auto small_bytes = std::as_bytes(std::span(small));
  save_npy(path, {Dtype::f32, {2, 2}, {small_bytes.begin(), small_bytes.end()}});
  EXPECT_EQ(load_mixer(path), expected);
}

TEST_F(MixerFile, BadFilesAreRefusedInOneLine) {
  EXPECT_EQ(why(write("a.txt", "1 2 3\n4 5 6\n")), "a mixer must be square, got 2 x 3");
  EXPECT_EQ(why(write("a.txt", "1 nan\n4 5\n")),
            "a mixer must be finite, it has a NaN or infinite entry");
  EXPECT_EQ(why(write("a.txt", "1 2\n4\n")), "line 2: 1 numbers, the rows before have 2");
  EXPECT_EQ(why(write("a.txt", "1 x\n4 5\n")), "line 1: 'x' is not a number");
  EXPECT_EQ(why(write("a.txt", "")), "holds no matrix");
  EXPECT_NE(why((folder_.path() / "missing.txt").string()), "");
  const auto path = folder_.path() / "a.npy";
  save_npy(path, {Dtype::i64, {1, 1}, std::vector<std::byte>(8)});
  EXPECT_EQ(why(path.string()), "a mixer must be F64 or F32, got I64");
  save_npy(path, {Dtype::f64, {1}, std::vector<std::byte>(8)});
  EXPECT_EQ(why(path.string()), "a mixer must have 2 dimensions, got 1");
}

class RunMixersFile : public testing::Test {
 protected:
  void add(const std::string& name, std::vector<int64_t> shape, const std::vector<double>& values) {
    writer_.add(name, Dtype::f64, std::move(shape), std::as_bytes(std::span(values)));
  }
  RunMixers load() {
    writer_.save(folder_.path() / "mixers.safetensors");
    return load_run_mixers(folder_.path());
  }
  std::string why() {
    const auto text = refusal([&] { load(); });
    return text.substr(text.find(']') + 2);
  }
  TemporaryFolder folder_;
  SafetensorsWriter writer_;
};

TEST_F(RunMixersFile, GivesTheMixersInOrderOfDepth) {
  add("mixer/001", {2, 2}, {5, 6, 7, 8});
  add("mixer/000", {2, 2}, {1, 2, 3, 4});
  add("sigma2", {2}, {0.1, 0.2});
  add("jacobian", {3}, {1, 2, 3});
  const auto run = load();
  ASSERT_EQ(run.mixers.size(), 2u);
  EXPECT_EQ(run.mixers[0](0, 1), 2);
  EXPECT_EQ(run.mixers[1](1, 0), 7);
  EXPECT_EQ(run.sigma2, (std::vector<double>{0.1, 0.2}));
  EXPECT_EQ(run.jacobian, (std::vector<double>{1, 2, 3}));
}

TEST_F(RunMixersFile, OfAnotherSizeIsRefused) {
  add("mixer/000", {2, 2}, {1, 2, 3, 4});
  add("mixer/001", {1, 1}, {1});
  EXPECT_EQ(why(), "tensor 'mixer/001' must be (2, 2), got (1, 1)");
}

TEST_F(RunMixersFile, WithAGapIsRefused) {
  add("mixer/000", {1, 1}, {1});
  add("mixer/002", {1, 1}, {1});
  EXPECT_EQ(why(), "has 2 tensors mixer/..., of which 'mixer/001' is missing");
}

TEST_F(RunMixersFile, WithoutMixersIsRefused) {
  add("jacobian", {1}, {1});
  EXPECT_EQ(why(), "has no tensor 'mixer/000'");
}

TEST_F(RunMixersFile, WithNaNIsRefused) {
  add("mixer/000", {1, 1}, {std::nan("")});
  EXPECT_EQ(why(), "tensor 'mixer/000' has a NaN or infinite entry");
}

TEST_F(RunMixersFile, WithTooManyVariancesIsRefused) {
  add("mixer/000", {1, 1}, {1});
  add("sigma2", {2}, {1, 1});
  EXPECT_EQ(why(), "tensor 'sigma2' has 2 values for 1 mixers");
}

TEST_F(RunMixersFile, ThatIsMissingIsRefused) {
  EXPECT_NE(refusal([&] { load_run_mixers(folder_.path() / "nowhere"); }), "");
}

}  // namespace
}  // namespace geores::spectral
