#include "lab/spectrum/mixer_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <span>
#include <string>

#include "geores/base/formats/npy.h"
#include "geores/base/formats/safetensors.h"
#include "geores/testing/testing.h"

namespace geores::spectral {
namespace {

using Eigen::MatrixXd;

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
