#include "geores/storage/state_file.h"

#include <gtest/gtest.h>

#include <cstring>

#include "geores/base/error.h"

namespace geores {
namespace {

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

// 2^24 values and some more: two pieces.
TEST(StateFile, ALargeTensorIsWrittenInPieces) {
  const auto values = torch::arange((int64_t{1} << 24) + 5, torch::kInt32).view({-1, 3});
  SafetensorsWriter writer;
  add_tensor(writer, "large", values);
  const auto file = Safetensors::parse(writer.serialize(), "memory");
  EXPECT_TRUE(torch::equal(to_tensor(file.at("large")), values));
  // The last value decides that float32 is needed.
  auto halves = torch::ones({(int64_t{1} << 24) + 5}).requires_grad_(true);
  {
    const torch::NoGradGuard no_grad;
    halves[-1] = 1 + 1.0F / 1024;
  }
  SafetensorsWriter other;
  add_tensor_in_fewest_bytes(other, "large", halves);
  EXPECT_EQ(Safetensors::parse(other.serialize(), "memory").at("large").dtype, Dtype::f32);
}

TEST(StateFile, FewestBytesAreHalfWhereBfloat16HoldsEveryValue) {
  const auto exact = torch::tensor({1.5, -0.0, 3e38}, torch::kFloat32).to(torch::kBFloat16);
  auto one_more_bit = exact.to(torch::kFloat32);
  one_more_bit[0] += 1.0F / 256;
  auto not_a_number = exact.to(torch::kFloat32);
  not_a_number[2] = std::nanf("7");
  SafetensorsWriter writer;
  add_tensor_in_fewest_bytes(writer, "exact", exact.to(torch::kFloat32));
  add_tensor_in_fewest_bytes(writer, "bit", one_more_bit);
  add_tensor_in_fewest_bytes(writer, "nan", not_a_number);
  add_tensor_in_fewest_bytes(writer, "strided", torch::arange(6.0F).view({2, 3}).t());
  add_tensor_in_fewest_bytes(writer, "double", torch::ones({2}, torch::kFloat64));
  const auto file = Safetensors::parse(writer.serialize(), "memory");
  const auto same_bits = [&](const char* name, const Tensor& expected) {
    const auto read = to_tensor(file.at(name));
    return read.scalar_type() == expected.scalar_type() && read.nbytes() == expected.nbytes() &&
           std::memcmp(read.data_ptr(), expected.data_ptr(), read.nbytes()) == 0;
  };
  EXPECT_TRUE(same_bits("exact", exact));
  EXPECT_TRUE(
      same_bits("strided", torch::arange(6.0F).view({2, 3}).t().contiguous().to(torch::kBFloat16)));
  EXPECT_TRUE(same_bits("bit", one_more_bit));
  EXPECT_TRUE(same_bits("nan", not_a_number));
  EXPECT_TRUE(same_bits("double", torch::ones({2}, torch::kFloat64)));
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
  auto linear = torch::nn::Linear(3, 2);
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

}  // namespace
}  // namespace geores
