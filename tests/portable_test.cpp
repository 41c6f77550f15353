// geores/portable against the golden dumps of another implementation, and its errors. Runs
// without LibTorch; portable_model_test.cpp compares with geores/model.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>

#include "geores/portable/model.h"
#include "geores/portable/predictors.h"
#include "geores/portable/reference/golden_model.h"
#include "geores/testing/testing.h"

namespace geores::portable {
namespace {

std::vector<double> doubles(const TensorView& view) {
  std::vector<double> values(view.bytes.size() / sizeof(double));
  std::memcpy(values.data(), view.bytes.data(), view.bytes.size());
  return values;
}

Model model_of(const GoldenModel& golden) {
  return Model(Weights(golden.weights, "golden"),
               JsonDocument(golden.config.dump(), "config").root());
}

class Golden : public testing::TestWithParam<const char*> {};

TEST_P(Golden, ForwardPassAgrees) {
  const auto file = Safetensors::load(std::filesystem::path(GEORES_GOLDEN_DIR) /
                                      (std::string(GetParam()) + ".safetensors"));
  auto model = model_of(golden_model(file));
  const auto x = doubles(file.at("x")), expected = doubles(file.at("out"));
  const auto shape = file.at("x").shape;
  const auto length = static_cast<int>(shape[1]);
  const auto size = static_cast<std::size_t>(shape[1] * shape[2]);
  std::vector<double> y(size);
  double worst = 0;
  for (std::size_t b = 0; b < static_cast<std::size_t>(shape[0]); ++b) {
    model.forward(x.data() + b * size, 0, length, y.data());
    for (std::size_t i = 0; i < size; ++i)
      worst = std::max(worst, std::abs(y[i] - expected[b * size + i]));
    if (!model.causal()) continue;
    // One position at a time gives the same.
    std::vector<double> one(static_cast<std::size_t>(shape[2]));
    for (int t = 0; t < length; ++t) {
      model.forward(x.data() + b * size + t * one.size(), t, t + 1, one.data());
      for (std::size_t i = 0; i < one.size(); ++i) EXPECT_EQ(one[i], y[t * one.size() + i]);
    }
  }
  std::printf("%s: %.2e\n", GetParam(), worst);
  EXPECT_LT(worst, 1e-12);
}

INSTANTIATE_TEST_SUITE_P(Files, Golden,
                         testing::Values("gpt", "ddl", "mhc", "jpmhc", "edelta",
                                         "edelta_entropy_gate", "edelta_stream"));

// ---- errors ----

GoldenModel small_model() {
  return golden_model(
      Safetensors::load(std::filesystem::path(GEORES_GOLDEN_DIR) / "gpt.safetensors"));
}

TEST(Portable, RefusesAConfigurationThatDoesNotFitInOneLine) {
  auto golden = small_model();
  const auto why = [&](const char* key, const nlohmann::json& value) {
    auto changed = golden;
    changed.config[key] = value;
    return refusal([&] { model_of(changed); });
  };
  EXPECT_EQ(why("layers", 3),
            "[golden] tensor 'blocks.2.attention_residual.norm.weight' is missing");
  EXPECT_EQ(why("layers", 0), "[config] 'layers' must be a whole number 1 ... 4096, got 0");
  EXPECT_EQ(why("layers", "two"), "[config] 'layers' must be a number");
  EXPECT_EQ(why("width", 15), "[golden] tensor 'positions' must be (10, 15), got (10, 16)");
  EXPECT_NE(why("model", "nonesuch").find("connection 'nonesuch' has no live predictions"),
            std::string::npos);
}

TEST(Portable, RefusesATokenModel) {
  SafetensorsWriter writer;
  const std::vector<float> values(6);
  writer.add("embedding", Dtype::f32, {2, 3}, std::as_bytes(std::span(values)));
  const auto file = writer.serialize();
  EXPECT_EQ(refusal([&] { Model(Weights(file, "a"), JsonDocument("{}", "config").root()); }),
            "[model] predicts tokens; live predictions are of vectors");
}

TEST(Portable, RefusesPositionsOutsideTheContext) {
  auto model = model_of(small_model());
  std::vector<double> x(200), y(200);
  EXPECT_EQ(refusal([&] { model.forward(x.data(), 0, 11, y.data()); }),
            "[model] positions 0 ... 10 are not in the context of 10");
}

std::vector<double> values_of(const Weights& weights, const char* name, const Shape& shape) {
  std::vector<double> values(shape.count());
  weights.read(name, shape, values.data());
  return values;
}

std::vector<std::byte> packed_file(const char* list, int scales = 2) {
  SafetensorsWriter writer;
  const std::vector<std::int8_t> values = {1, -2, 127, -128};
  const std::vector<std::uint16_t> halves = {0x3800, 0x4000};           // 0.5, 2
  const std::vector<std::uint16_t> vectors = {0xBC00, 0x0001, 0x7BFF};  // -1, 2⁻²⁴, 65504
  writer.add("values", Dtype::i8, {4}, std::as_bytes(std::span(values)));
  writer.add("scales", Dtype::f16, {scales}, std::as_bytes(std::span(halves)).first(2 * scales));
  writer.add("vectors", Dtype::f16, {3}, std::as_bytes(std::span(vectors)));
  writer.metadata("tensors", list);
  return writer.serialize();
}

TEST(Weights, ReadsAPackedFile) {
  const auto file = packed_file("w 2 2;b 3;");
  const Weights weights(file, "a");
  EXPECT_EQ(values_of(weights, "w", {2, 2}), (std::vector<double>{0.5, -1, 254, -256}));
  EXPECT_EQ(values_of(weights, "b", {3}), (std::vector<double>{-1, 0x1p-24, 65504}));
  EXPECT_EQ(weights.parameters(), 7);
}

TEST(Weights, RefusesAPackedFileWhoseListDoesNotFit) {
  const auto why = [](const char* list, int scales = 2) {
    const auto file = packed_file(list, scales);
    return refusal([&] { Weights(file, "a"); });
  };
  EXPECT_EQ(why("w 2 2;"), "[a] vectors holds more than the list of tensors says");
  EXPECT_EQ(why("w 2 3;b 3;"), "[a] values does not match the list of tensors");
  EXPECT_EQ(why("w 2 2;b 3;", 1), "[a] scales does not match the list of tensors");
  EXPECT_EQ(why("w 2 x;b 3;"), "[a] the list of tensors is broken at 'w'");
  EXPECT_EQ(why("w 1 2 2;b 3;"), "[a] the list of tensors is broken at 'w'");
  EXPECT_EQ(why("w 99999999999 2;b 3;"), "[a] the list of tensors is broken at 'w'");
  const auto file = packed_file("");
  const Weights plain(file, "a");
  EXPECT_EQ(refusal([&] { values_of(plain, "values", {4}); }),
            "[a] tensor 'values': 8-bit values need scales");
}

TEST(Weights, RefusesNaN) {
  SafetensorsWriter writer;
  const std::vector<float> values = {1, NAN};
  writer.add("w", Dtype::f32, {2}, std::as_bytes(std::span(values)));
  const auto file = writer.serialize();
  EXPECT_EQ(refusal([&] { values_of(Weights(file, "a"), "w", {2}); }),
            "[a] tensor 'w' holds NaN or infinite values");
}

std::vector<std::byte> file_with_header(const std::string& header, std::size_t data) {
  const std::uint64_t length = header.size();
  std::vector<std::byte> file(8 + header.size() + data);
  std::memcpy(file.data(), &length, 8);
  std::memcpy(file.data() + 8, header.data(), header.size());
  return file;
}

TEST(Weights, RefusesHostileFiles) {
  const auto why = [](const std::string& header, std::size_t data) {
    const auto file = file_with_header(header, data);
    return refusal([&] { Weights(file, "a"); });
  };
  EXPECT_EQ(why(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8), "");
  EXPECT_NE(why(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 7), "");
  EXPECT_NE(why(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 9), "");
  EXPECT_NE(why(R"({"w":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8), "");
  EXPECT_NE(why(R"({"w":{"dtype":"BF16","shape":[4],"data_offsets":[0,8]}})", 8), "");
  EXPECT_NE(why(R"({"w":{"dtype":"F32","shape":[1,1,1,1,2],"data_offsets":[0,8]}})", 8), "");
  EXPECT_NE(why(R"({"w":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8), "");
  EXPECT_NE(why(R"({"w":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]}})", 8),
            "");
  EXPECT_NE(why(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8), "");
  EXPECT_NE(why(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                R"("b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
                8),
            "");
  EXPECT_NE(why("[]", 0), "");
  EXPECT_NE(why("{", 0), "");
  const std::vector<std::byte> huge =
      to_bytes(std::string_view("\xff\xff\xff\xff\xff\xff\xff\x0f{}"));
  EXPECT_NE(refusal([&] { Weights(huge, "a"); }), "");
  EXPECT_NE(refusal([&] { Weights({}, "a"); }), "");
}

TEST(Weights, MutatedFilesAreReadOrRefusedInOneLine) {
  const auto golden = small_model();
  const JsonDocument config(golden.config.dump(), "config");
  std::mt19937_64 random(1);
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    const auto file = to_bytes(std::string_view(mutate(to_text(golden.weights), 3000, random)));
    refused += !refusal([&] { Model(Weights(file, "a"), config.root()); }).empty();
  }
  EXPECT_GT(refused, 1000);
}

TEST(PortableJson, ReadsWhatNlohmannReads) {
  for (const char* text :
       {R"({"a": [1, -2.5e3, true, null, "x\n\u00e9\ud83d\ude00"]})", "[]", "3"}) {
    EXPECT_EQ(refusal([&] { JsonDocument(text, "a"); }), "") << text;
  }
  const JsonDocument document(R"({"s":"x\n\u00e9\ud83d\ude00","n":-2.5e3})", "a");
  const auto& json = document.root();
  EXPECT_EQ(json.find("s")->string(), "x\n\u00e9\U0001F600");
  EXPECT_EQ(json.find("n")->number(), -2500);
  for (const char* text : {"", "{", "[1,]", "{\"a\":1,\"a\":2}", "01x", "nul", "\"\\ud800\"",
                           "[1 2]", "\"\x01\"", "{a:1}", "-", "1 2", "\"\xff\""}) {
    EXPECT_NE(refusal([&] { JsonDocument(text, "a"); }), "") << text;
  }
  EXPECT_NE(refusal([] { JsonDocument(std::string(100000, '['), "a"); }), "");
  std::string many = "{";
  for (int i = 0; i <= 10000; ++i) many += (i ? ",\"" : "\"") + std::to_string(i) + "\":0";
  EXPECT_NE(refusal([&] { JsonDocument(many + "}", "a"); }).find("too many keys"),
            std::string::npos);
}

TEST(PortableJson, ListsWhatItHoldsInOrder) {
  const JsonDocument document(R"({"a":[1,[2,3],{"b":4}],"c":5})", "a");
  std::string keys;
  for (const auto& member : document.root()) keys += member.key();
  EXPECT_EQ(keys, "ac");
  int items = 0;
  for ([[maybe_unused]] const auto& item : *document.root().find("a")) ++items;
  EXPECT_EQ(items, 3);
  EXPECT_EQ(document.root().find("c")->number(), 5);
  EXPECT_EQ(document.root().find("b"), nullptr);
  for ([[maybe_unused]] const auto& none : *document.root().find("c")) FAIL();
}

TEST(PortableRefusal, IsOneLineWithItsValues) {
  const auto line = [](std::initializer_list<Shown> values) {
    return refusal([&] { refuse("a", "{} and {}", values); });
  };
  EXPECT_EQ(line({0, -12}), "[a] 0 and -12");
  EXPECT_EQ(line({0.5, 1234567}), "[a] 0.5 and 1234567");
  EXPECT_EQ(line({3.14159265, 0.05}), "[a] 3.14159 and 0.05");
  EXPECT_EQ(line({1e-7, 2.5e20}), "[a] 1e-7 and 2.5e20");
  EXPECT_EQ(line({NAN, -INFINITY}), "[a] nan and -inf");
  EXPECT_EQ(line({"x", quoted("a\n\x01\xff")}), "[a] x and 'a\\n\\x01\\xff'");
  const std::string long_name(90, 'y');
  EXPECT_EQ(line({"x", quoted(std::string_view(long_name))}),
            "[a] x and '" + std::string(80, 'y') + "...'");
}

// ---- predictors without a model ----

TEST(Predictors, TwoStatesDetermineAPlaneRotation) {
  const int width = 16, i = 3, j = 11, length = 20;
  for (const double theta : {0.1, 0.9, 2.5, 3.1}) {
    std::vector<double> x(width * (length + 1));
    for (int c = 0; c < width; ++c) x[c] = std::sin(1 + 7 * c);
    for (int t = 1; t <= length; ++t) {
      double* now = x.data() + t * width;
      std::copy_n(now - width, width, now);
      now[i] = std::cos(theta) * now[i - width] - std::sin(theta) * now[j - width];
      now[j] = std::sin(theta) * now[i - width] + std::cos(theta) * now[j - width];
    }
    std::vector<double> y(width);
    for (int t = 1; t < length; ++t) {
      predict_next(Rule::two_state, x.data(), t, width, y.data());
      for (int c = 0; c < width; ++c) EXPECT_NEAR(y[c], x[(t + 1) * width + c], 1e-12);
    }
  }
}

TEST(Predictors, MatchTheirNames) {
  const std::vector<double> x = {1, 2, 3, 5};
  std::vector<double> y(2);
  predict_next(Rule::zero, x.data(), 1, 2, y.data());
  EXPECT_EQ(y, (std::vector<double>{0, 0}));
  predict_next(Rule::copy, x.data(), 1, 2, y.data());
  EXPECT_EQ(y, (std::vector<double>{3, 5}));
  predict_next(Rule::running_mean, x.data(), 1, 2, y.data());
  EXPECT_EQ(y, (std::vector<double>{2, 3.5}));
  predict_next(Rule::two_state, x.data(), 0, 2, y.data());
  EXPECT_EQ(y, (std::vector<double>{1, 2}));
}

}  // namespace
}  // namespace geores::portable
