// A user's own files: geores/data/tasks/folder.h.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <span>

#include "geores/base/file.h"
#include "geores/base/formats/npy.h"
#include "geores/data/registry.h"
#include "geores/testing/testing.h"

namespace geores {
namespace {

namespace fs = std::filesystem;

class UserFolder : public testing::Test {
 protected:
  UserFolder() {
    for (const char* name : {"train_x", "train_y"}) save(name, {3, 4, 2}, counting(24));
    for (const char* name : {"val_x", "val_y"}) save(name, {2, 4, 2}, counting(16));
  }

  static std::vector<double> counting(int64_t count) {
    std::vector<double> values;
    for (int64_t i = 0; i < count; ++i) values.push_back(0.5 * static_cast<double>(i));
    return values;
  }

  template <class Number = float>
  void save(const std::string& name, std::vector<int64_t> shape,
            const std::vector<double>& values) {
    const std::vector<Number> numbers(values.begin(), values.end());
    const auto bytes = std::as_bytes(std::span(numbers));
    const auto dtype = std::is_same_v<Number, float>    ? Dtype::f32
                       : std::is_same_v<Number, double> ? Dtype::f64
                                                        : Dtype::i32;
    save_npy(folder_.path() / (name + ".npy"),
             {dtype, std::move(shape), {bytes.begin(), bytes.end()}});
  }

  std::string path() const { return folder_.path().string(); }
  Dataset load(nlohmann::json options = nlohmann::json::object()) const {
    options["data"] = path();
    return load_dataset({"folder", options});
  }
  std::string refused(const nlohmann::json& options = nlohmann::json::object()) const {
    return refusal([&] { load(options); });
  }

  TemporaryFolder folder_;
};

TEST_F(UserFolder, FloatAndDoubleArriveAsFloat) {
  auto values = counting(24);
  values[5] = 0.1;
  save<double>("train_x", {3, 4, 2}, values);
  const auto data = load();
  EXPECT_EQ(data.task, "folder");
  EXPECT_FALSE(data.tokens());
  EXPECT_EQ(data.length(), 4);
  EXPECT_EQ(data.input_width(), 2);
  EXPECT_EQ(data.train_x.scalar_type(), torch::kFloat32);
  EXPECT_EQ((data.train_x[0][2][1].item<float>()), 0.1f);
  EXPECT_EQ((data.train_y[2][3][1].item<float>()), 11.5f);
  EXPECT_EQ((data.validation_x[1][0][0].item<float>()), 4.0f);
  EXPECT_EQ((data.validation_y[1][3][1].item<float>()), 7.5f);
  EXPECT_FALSE(data.validation_theta.defined());
}

TEST_F(UserFolder, CountsTakeTheFirstSequences) {
  const auto all = load();
  const auto data = load({{"train_sequences", 2}, {"validation_sequences", 1}});
  EXPECT_TRUE(torch::equal(data.train_x, all.train_x.narrow(0, 0, 2)));
  EXPECT_TRUE(torch::equal(data.train_y, all.train_y.narrow(0, 0, 2)));
  EXPECT_TRUE(torch::equal(data.validation_x, all.validation_x.narrow(0, 0, 1)));
  EXPECT_TRUE(torch::equal(data.validation_y, all.validation_y.narrow(0, 0, 1)));
  EXPECT_EQ(refused({{"train_sequences", 4}}),
            fmt::format("[{}] 'train_sequences' is 4, the folder has 3", path()));
  EXPECT_EQ(refused({{"validation_sequences", 3}}),
            fmt::format("[{}] 'validation_sequences' is 3, the folder has 2", path()));
}

TEST_F(UserFolder, NumbersThatAreNotFiniteAreNamedByFileAndIndex) {
  const auto spoilt = [&](const char* name, double value) {
    auto values = counting(16);
    values[11] = value;
    save<double>(name, {2, 4, 2}, values);
    return refused();
  };
  const auto expected = [&](const char* name, const char* value) {
    return fmt::format(
        "[{}/{}.npy] the number at [1, 1, 1] is {}: only finite float32 numbers can be learned "
        "from",
        path(), name, value);
  };
  EXPECT_EQ(spoilt("val_y", std::nan("")), expected("val_y", "nan"));
  EXPECT_EQ(spoilt("val_x", -std::numeric_limits<double>::infinity()), expected("val_x", "-inf"));
  EXPECT_EQ(spoilt("val_x", 1e300), expected("val_x", "1e+300"));
  auto values = counting(24);
  values[0] = std::nan("");
  save("train_y", {3, 4, 2}, values);
  EXPECT_EQ(refused(),
            fmt::format("[{}/train_y.npy] the number at [0, 0, 0] is nan: only finite float32 "
                        "numbers can be learned from",
                        path()));
}

TEST_F(UserFolder, MismatchedShapesAreNamedBoth) {
  save("train_y", {3, 2, 4}, counting(24));
  EXPECT_EQ(
      refused(),
      fmt::format("[{}] train_x.npy has shape [3, 4, 2], train_y.npy has shape [3, 2, 4]", path()));
  save("train_y", {3, 4, 2}, counting(24));
  save("val_y", {1, 4, 2}, counting(8));
  EXPECT_EQ(refused(), fmt::format("[{}] val_x.npy has shape [2, 4, 2], val_y.npy has shape [1, 4, "
                                   "2]",
                                   path()));
  for (const char* name : {"val_x", "val_y"}) save(name, {2, 3, 2}, counting(12));
  EXPECT_EQ(
      refused(),
      fmt::format("[{}] train_x.npy has shape [3, 4, 2], val_x.npy has shape [2, 3, 2]", path()));
}

TEST_F(UserFolder, EmptyAndFlatArraysAreRefused) {
  save("val_x", {0, 4, 2}, {});
  EXPECT_EQ(refused(), fmt::format("[{}/val_x.npy] shape [0, 4, 2] holds no sequences", path()));
  save("val_x", {2, 0, 2}, {});
  EXPECT_EQ(refused(), fmt::format("[{}/val_x.npy] shape [2, 0, 2] holds no numbers", path()));
  save("val_x", {2, 4, 0}, {});
  EXPECT_EQ(refused(), fmt::format("[{}/val_x.npy] shape [2, 4, 0] holds no numbers", path()));
  save("train_x", {12, 2}, counting(24));
  EXPECT_EQ(refused(), fmt::format("[{}/train_x.npy] shape [12, 2] is not (sequences, length, "
                                   "width)",
                                   path()));
}

TEST_F(UserFolder, OtherTypesAreRefused) {
  save<int32_t>("train_x", {3, 4, 2}, counting(24));
  EXPECT_EQ(refused(), fmt::format("[{}/train_x.npy] holds I32, expected F32 or F64", path()));
}

TEST_F(UserFolder, MissingFileOrFolderIsNamed) {
  fs::remove(folder_.path() / "val_y.npy");
  EXPECT_EQ(refused(),
            fmt::format("[{}/val_y.npy] cannot be read: No such file or directory", path()));
  EXPECT_EQ(refusal([] {
              load_dataset({"folder", {{"data", "/no/such"}}});
            }),
            "[/no/such/train_x.npy] cannot be read: No such file or directory");
  EXPECT_EQ(refusal([] { load_dataset({"folder"}); }),
            "[folder] 'data' must name the folder of train_x.npy, train_y.npy, val_x.npy and "
            "val_y.npy");
}

TEST_F(UserFolder, TruncatedFileIsNamed) {
  const auto path_x = folder_.path() / "train_x.npy";
  const auto bytes = read_file(path_x);
  write_file_atomically(path_x, std::span(bytes).first(bytes.size() - 4));
  EXPECT_EQ(refused(), fmt::format("[{}/train_x.npy] shape (3, 4, 2) of <f4 needs 96 bytes of "
                                   "data, the file holds 92",
                                   path()));
}

}  // namespace
}  // namespace geores
