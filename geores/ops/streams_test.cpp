#include "geores/ops/streams.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <thread>

#include "geores/base/error.h"
#include "geores/ops/constants.h"
#include "geores/ops/implementation.h"
#include "geores/ops/layers.h"
#include "geores/ops/pool.h"
#include "geores/ops/precision.h"
#include "geores/ops/state_file.h"

namespace geores {
namespace {

TEST(Streams, SplitAndJoinUndoEachOther) {
  const auto x = torch::randn({2, 3, 12});
  EXPECT_TRUE(torch::equal(join_streams(split_streams(x, 4)), x));
  EXPECT_EQ(split_streams(x, 4).sizes(), (std::vector<int64_t>{2, 3, 4, 3}));
  EXPECT_THROW(split_streams(x, 5), Error);
}

TEST(Streams, CollectAndSpreadAreRowAndColumnOfAMix) {
  const auto x = torch::randn({2, 3, 4, 5}, torch::kFloat64);
  const auto weight = torch::randn({2, 3, 4}, torch::kFloat64);
  const auto collected = collect_streams(weight, x);
  const auto by_hand = (weight.unsqueeze(-1) * x).sum(2);
  EXPECT_LT((collected - by_hand).abs().max().item<double>(), 1e-14);
  const auto spread = spread_to_streams(weight, collected);
  EXPECT_TRUE(torch::equal(spread[1][2][3], weight[1][2][3] * collected[1][2]));
}

TEST(Constants, AllPermutationsAreDistinctAndStartWithTheIdentity) {
  const auto all = all_permutations(4).to(torch::kFloat32);
  EXPECT_EQ(all.size(0), 24);
  EXPECT_TRUE(torch::equal(all[0], torch::eye(4)));
  EXPECT_TRUE(torch::equal(all.sum(1), torch::ones({24, 4})));
  EXPECT_TRUE(torch::equal(all.sum(2), torch::ones({24, 4})));
  const auto code = all.flatten(1).matmul(torch::pow(2.0, torch::arange(16, torch::kFloat32)));
  EXPECT_EQ(std::get<0>(at::_unique(code)).numel(), 24);
}

TEST(Constants, HelmertColumnsAreOrthonormalAndSumToZero) {
  for (const int64_t n : {2, 3, 8, 16}) {
    const auto basis = helmert_basis(n);
    const auto gram = basis.t().matmul(basis) - torch::eye(n - 1, torch::kFloat64);
    EXPECT_LT(gram.abs().max().item<double>(), 1e-14);
    EXPECT_LT(basis.sum(0).abs().max().item<double>(), 1e-14);
  }
  EXPECT_THROW(helmert_basis(1), Error);
  EXPECT_THROW(helmert_basis(17), Error);
}

TEST(Pool, CausalMeanSeesThePastOnly) {
  const auto x = torch::tensor({{{1.0}, {3.0}, {8.0}}});
  EXPECT_TRUE(torch::equal(pooled(x, Pool::sequence), torch::tensor({{{4.0}}})));
  EXPECT_TRUE(torch::equal(pooled(x, Pool::causal), torch::tensor({{{1.0}, {2.0}, {4.0}}})));
  EXPECT_TRUE(torch::equal(pooled(x, Pool::token), x));
  EXPECT_EQ(pool_from("causal"), Pool::causal);
  EXPECT_THROW(pool_from("future"), Error);
}

TEST(Layers, RmsNormalizeGivesUnitMeanSquare) {
  const auto y = rms_normalize(5 * torch::randn({3, 64}, torch::kFloat64), 0.0);
  EXPECT_LT((y.square().mean(-1) - 1).abs().max().item<double>(), 1e-12);
}

TEST(StateFile, KeepsEveryBitOfEveryType) {
  SafetensorsWriter writer;
  const auto quiet_nan = torch::tensor({std::nan("7"), -0.0, 1e-320}, torch::kFloat64);
  add_tensor(writer, "f64", quiet_nan);
  add_tensor(writer, "bf16", torch::randn({3, 2}).to(torch::kBFloat16));
  add_tensor(writer, "bool", torch::tensor({true, false}));
  add_tensor(writer, "empty", torch::empty({0, 4}));
  add_tensor(writer, "strided", torch::arange(6).view({2, 3}).t());
  const auto file = Safetensors::parse(writer.serialize(), "memory");
  const auto read = to_tensor(file.at("f64"));
  EXPECT_EQ(std::memcmp(read.data_ptr(), quiet_nan.data_ptr(), quiet_nan.nbytes()), 0);
  EXPECT_EQ(to_tensor(file.at("bf16")).scalar_type(), torch::kBFloat16);
  EXPECT_TRUE(to_tensor(file.at("bool"))[0].item<bool>());
  EXPECT_EQ(to_tensor(file.at("empty")).sizes(), (std::vector<int64_t>{0, 4}));
  EXPECT_TRUE(torch::equal(to_tensor(file.at("strided")), torch::arange(6).view({2, 3}).t()));
}

std::string load_error(torch::nn::Module& module, SafetensorsWriter& writer) {
  try {
    load_state(module, Safetensors::parse(writer.serialize(), "weights"), "weights");
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(StateFile, RefusesWhatDoesNotFitAndChangesNothing) {
  auto linear = make_linear(3, 2, true);
  const auto before = linear->weight.clone();
  const auto weight = torch::ones({2, 3}), bias = torch::ones({2});
  {
    SafetensorsWriter writer;
    add_tensor(writer, "weight", weight);
    EXPECT_NE(load_error(*linear, writer).find("'bias' is missing"), std::string::npos);
  }
  {
    SafetensorsWriter writer;
    add_tensor(writer, "weight", weight);
    add_tensor(writer, "bias", torch::ones({3}));
    EXPECT_EQ(load_error(*linear, writer), "[weights] tensor 'bias' has shape [3], expected [2]");
  }
  {
    SafetensorsWriter writer;
    add_tensor(writer, "weight", weight.to(torch::kFloat64));
    add_tensor(writer, "bias", bias);
    EXPECT_EQ(load_error(*linear, writer),
              "[weights] tensor 'weight' has dtype Double, expected Float");
  }
  {
    SafetensorsWriter writer;
    add_tensor(writer, "weight", weight);
    add_tensor(writer, "bias", bias);
    add_tensor(writer, "scale", bias);
    EXPECT_EQ(load_error(*linear, writer),
              "[weights] tensor 'scale' does not belong to this model");
  }
  EXPECT_TRUE(torch::equal(linear->weight, before));
}

TEST(Precision, OnlyLargeProductsOfThisThreadGoToBfloat16) {
  const auto x = torch::randn({2, 3});
  EXPECT_EQ(for_product(x).scalar_type(), torch::kFloat32);
  {
    const PrecisionScope scope("bf16");
    EXPECT_EQ(for_product(x).scalar_type(), torch::kBFloat16);
    EXPECT_EQ(for_product(x.to(torch::kFloat64)).scalar_type(), torch::kFloat64);
    EXPECT_FALSE(for_product(Tensor()).defined());
    EXPECT_TRUE(runs_fused(x)) << "a product rounds its factors by itself";
    const auto mixed = mix_streams(torch::eye(2), x);
    EXPECT_TRUE(torch::equal(mixed, x)) << "operators on streams stay in float32";
    const PrecisionScope inner("fp32");
    EXPECT_FALSE(products_in_bfloat16());
    std::thread([] { EXPECT_FALSE(products_in_bfloat16()); }).join();
  }
  EXPECT_FALSE(products_in_bfloat16());
  EXPECT_THROW(PrecisionScope("fp8"), Error);
}

}  // namespace
}  // namespace geores
