// Our models against float64 dumps of the public reference code.
#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "geores/base/file.h"
#include "lab/reference/dump_comparison.h"
#include "lab/reference/public_names.h"
#include "lab/reference/verify.h"

namespace geores {
namespace {

const std::string kDirectory = GEORES_GOLDEN_DIR "/";

class Golden : public testing::TestWithParam<const char*> {
 protected:
  std::string name() const { return std::string(GetParam()) + ".safetensors"; }
  std::string path() const { return kDirectory + name(); }

  // The verdict after one byte of `tensor`, of float64 (the top byte of its largest value's mantissa) is
  // changed.
  std::vector<std::string> failed_groups_after_change(const std::string& tensor) const {
    const auto original = Safetensors::load(path());
    const auto& view = original.at(tensor);
    std::vector<double> values(view.bytes.size() / sizeof(double));
    std::memcpy(values.data(), view.bytes.data(), view.bytes.size());
    size_t largest = 0;
    for (size_t i = 0; i < values.size(); ++i)
      if (std::abs(values[i]) > std::abs(values[largest])) largest = i;

    auto bytes = read_file(path());
    const auto start = bytes.size() - total_data(original) +
                       static_cast<size_t>(view.bytes.data() - first_byte(original));
    bytes[start + largest * sizeof(double) + 5] ^= std::byte{0x40};
    std::vector<std::string> failed;
    for (const auto& group : verify_dump(Safetensors::parse(bytes, name()), name()).groups)
      if (!group.passed()) failed.push_back(group.group);
    return failed;
  }

 private:
  static const std::byte* first_byte(const Safetensors& file) {
    return file.at(file.names().front()).bytes.data();
  }
  static size_t total_data(const Safetensors& file) {
    size_t total = 0;
    for (const auto& name : file.names()) total += file.at(name).bytes.size();
    return total;
  }
};

TEST_P(Golden, EveryGroupAgrees) {
  const auto result = verify_dump(Safetensors::load(path()), name());
  EXPECT_EQ(result.groups.size(), 7u);
  for (const auto& group : result.groups) {
    EXPECT_LT(group.error, group.limit) << group.group << ", worst: " << group.worst;
    EXPECT_EQ(group.limit, group.group == "after" ? 1e-7 : 1e-9);
  }
  EXPECT_TRUE(result.passed());
}

TEST_P(Golden, AChangedByteIsFoundInItsGroup) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(failed_groups_after_change("out"), Names{"out"});
  EXPECT_EQ(failed_groups_after_change("mse"), Names{"mse"});
  EXPECT_EQ(failed_groups_after_change("y"), Names{"mse"});
  EXPECT_EQ(failed_groups_after_change("cotangent"), Names{"grad"});
  EXPECT_EQ(failed_groups_after_change("grad/input_proj.weight"), Names{"grad"});
  EXPECT_EQ(failed_groups_after_change("train/mse"), Names{"train/mse"});
  EXPECT_EQ(failed_groups_after_change("train/grad_norm"), Names{"train/grad_norm"});
  EXPECT_EQ(failed_groups_after_change("after/output_proj.weight"), Names{"after"});
  EXPECT_GE(failed_groups_after_change("param/core.transformer.h.1.mlp.c_fc.weight").size(), 5u);
}

// Language models: nanoGPT, and the modules of the public mHC-lite code.
class LanguageGolden : public Golden {};

TEST_P(LanguageGolden, EveryGroupAgrees) {
  const auto result = verify_dump(Safetensors::load(path()), name());
  EXPECT_EQ(result.groups.size(), 6u);
  for (const auto& group : result.groups) {
    EXPECT_LT(group.error, group.limit) << group.group << ", worst: " << group.worst;
    EXPECT_EQ(group.limit, group.group == "after" ? 1e-7 : 1e-9);
  }
  EXPECT_TRUE(result.passed());
}

TEST_P(LanguageGolden, AChangedByteIsFoundInItsGroup) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(failed_groups_after_change("out"), Names{"out"});
  EXPECT_EQ(failed_groups_after_change("loss"), Names{"loss"});
  EXPECT_EQ(failed_groups_after_change("grad/transformer.wte.weight"), Names{"grad"});
  EXPECT_EQ(failed_groups_after_change("train/loss"), Names{"train/loss"});
  EXPECT_EQ(failed_groups_after_change("train/grad_norm"), Names{"train/grad_norm"});
  EXPECT_EQ(failed_groups_after_change("after/transformer.wpe.weight"), Names{"after"});
  EXPECT_GE(failed_groups_after_change("param/transformer.wte.weight").size(), 5u);
  if (std::string(GetParam()) == "lm_gpt") return;
  for (const std::string tensor :
       {"transformer.h.0.hc_attn.static_alpha", "transformer.h.1.hc_mlp.dynamic_alpha_fn"}) {
    EXPECT_EQ(failed_groups_after_change("grad/" + tensor), Names{"grad"}) << tensor;
    EXPECT_EQ(failed_groups_after_change("after/" + tensor), Names{"after"}) << tensor;
    EXPECT_FALSE(failed_groups_after_change("param/" + tensor).empty()) << tensor;
  }
}

// The errors over their limits, by group, of a comparison with wrong settings.
std::map<std::string, double> language_errors(const std::string& kind,
                                              const LanguageSettings& settings) {
  const auto file = Safetensors::load(kDirectory + kind + ".safetensors");
  Dump dump(file, kind);
  std::map<std::string, double> errors;
  for (const auto& group : verify_language(dump, kind, settings).groups)
    errors[group.group] = group.error / group.limit;
  return errors;
}

const std::vector<std::string> kHyperKinds = {"lm_hc", "lm_mhc", "lm_mhc_lite"};

// The weights after ten steps have a wider limit, and stay below it.
TEST(LanguageGoldenFinds, AnEpsilonInTheNorm) {
  for (const auto& kind : kHyperKinds)
    for (const auto& [group, error] : language_errors(kind, {.options = {{"norm_epsilon", 1e-6}}}))
      EXPECT_TRUE(error > 1 || group == "after") << kind << " " << group << " " << error;
}

TEST(LanguageGoldenFinds, TheOtherOrderOfSinkhorn) {
  for (const auto& [group, error] :
       language_errors("lm_mhc", {.options = {{"sinkhorn_order", "rows_last"}}}))
    EXPECT_GT(error, 1e3) << group;
}

TEST(LanguageGoldenFinds, AMixerThatIsNotTransposed) {
  const auto transposed = [](const std::string& kind, const std::string& parameter, int64_t n) {
    auto source = public_tensor(kind, parameter, n);
    const bool bias = parameter.ends_with("res.bias"), weight = parameter.ends_with("res.weight");
    if (kind == "lm_mhc_lite" && (bias || weight))  // each permutation instead of its inverse
      source.part = [n, bias](const Tensor& t) { return (bias ? t : t.t()).slice(0, n); };
    else if (bias || (weight && kind == "lm_mhc"))  // in lm_hc a stream j writes a whole column
      source.part = [n, part = source.part](const Tensor& t) {
        const auto ours = part(t);
        return ours.reshape({n, n, -1}).transpose(0, 1).reshape(ours.sizes());
      };
    return source;
  };
  for (const auto& kind : kHyperKinds)
    for (const auto& [group, error] : language_errors(kind, {.source = transposed}))
      EXPECT_GT(error, 1e3) << kind << " " << group;
}

// It is not seen before the first step.
TEST(LanguageGoldenFinds, ADecayOfTheWrongParametersOrOfAnotherSize) {
  const auto expect_after_training = [](const std::string& kind, const LanguageSettings& settings) {
    auto errors = language_errors(kind, settings);
    for (const auto* group : {"out", "loss", "grad"}) EXPECT_LT(errors.at(group), 1) << kind;
    for (const auto* group : {"train/loss", "train/grad_norm", "after"})
      EXPECT_GT(errors.at(group), 1) << kind << " " << group;
  };
  for (const auto& kind : kHyperKinds)
    expect_after_training(kind, {.options = {{"decay_static", kind == "lm_mhc_lite"}}});
  expect_after_training("lm_gpt", {.optimizer = {.weight_decay = 0.09}});
}

INSTANTIATE_TEST_SUITE_P(AllDumps, LanguageGolden,
                         testing::Values("lm_gpt", "lm_hc", "lm_mhc", "lm_mhc_lite"),
                         [](const auto& dump) { return std::string(dump.param); });

// Hyper-connections as DeepSeek-V4 has them.
class V4Golden : public Golden {};

TEST_P(V4Golden, EveryGroupAgreesAndAChangedByteIsFound) {
  using Names = std::vector<std::string>;
  const auto result = verify_dump(Safetensors::load(path()), name());
  ASSERT_EQ(result.groups.size(), 3u);
  for (const auto& group : result.groups) {
    EXPECT_LT(group.error, group.limit) << group.group << ", worst: " << group.worst;
    // The dump is rounded to float32 behind the first connection's routes.
    EXPECT_EQ(group.limit, group.group == "routes" ? 1e-9 : 3e-7);
  }
  for (const auto* tensor : {"out/comb.0", "out/post.0", "out/collapsed.0"})
    EXPECT_EQ(failed_groups_after_change(tensor), Names{"routes"}) << tensor;
  for (const auto* tensor : {"out/streams", "out/head", "out/comb.1", "out/post.1"})
    EXPECT_EQ(failed_groups_after_change(tensor), Names{"out"}) << tensor;
  for (const auto* tensor : {"grad/x", "grad/connections.0.fn", "grad/connections.1.base",
                             "grad/connections.1.scale", "grad/head.hc_fn", "grad/norms.0.weight"})
    EXPECT_EQ(failed_groups_after_change(tensor), Names{"grad"}) << tensor;
  EXPECT_EQ(failed_groups_after_change("param/connections.0.fn").size(), 3u);
}

// V4.1: in float64 throughout, and a site reads with the weights of the one before.
class V41Golden : public Golden {};

TEST_P(V41Golden, EveryGroupAgreesAndAChangedByteIsFound) {
  using Names = std::vector<std::string>;
  const auto result = verify_dump(Safetensors::load(path()), name());
  ASSERT_EQ(result.groups.size(), 3u);
  for (const auto& group : result.groups) {
    EXPECT_LT(group.error, group.limit) << group.group << ", worst: " << group.worst;
    EXPECT_EQ(group.limit, 1e-12);
  }
  for (const auto* tensor : {"out/comb.0", "out/pre.0", "out/post.0", "out/collapsed.0"})
    EXPECT_EQ(failed_groups_after_change(tensor), Names{"routes"}) << tensor;
  for (const auto* tensor : {"out/streams", "out/head", "out/pre.3", "out/collapsed.3"})
    EXPECT_EQ(failed_groups_after_change(tensor), Names{"out"}) << tensor;
  for (const auto* tensor :
       {"grad/x", "grad/connections.3.fn", "grad/connections.0.base", "grad/norms.0.weight"})
    EXPECT_EQ(failed_groups_after_change(tensor), Names{"grad"}) << tensor;
}

INSTANTIATE_TEST_SUITE_P(AllDumps, V41Golden, testing::Values("mhc_v41"),
                         [](const auto& dump) { return std::string(dump.param); });

INSTANTIATE_TEST_SUITE_P(AllDumps, V4Golden, testing::Values("mhc_v4"),
                         [](const auto& dump) { return std::string(dump.param); });

INSTANTIATE_TEST_SUITE_P(AllDumps, Golden,
                         testing::Values("gpt", "ddl", "mhc", "jpmhc", "edelta",
                                         "edelta_entropy_gate", "edelta_stream"),
                         [](const auto& dump) { return std::string(dump.param); });

}  // namespace
}  // namespace geores
