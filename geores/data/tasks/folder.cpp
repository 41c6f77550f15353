#include "geores/data/tasks/folder.h"

#include <fmt/ranges.h>

#include <cmath>
#include <cstring>
#include <filesystem>

#include "geores/base/error.h"
#include "geores/base/formats/npy.h"

namespace geores {
namespace {

std::string shape_text(c10::IntArrayRef shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

std::string index_text(int64_t position, const std::vector<int64_t>& shape) {
  std::vector<int64_t> index(shape.size());
  for (auto axis = shape.size(); axis-- > 0; position /= shape[axis])
    index[axis] = position % shape[axis];
  return shape_text(index);
}

template <class Number>
Tensor to_finite_floats(const NpyArray& array, const std::string& where) {
  auto tensor = torch::empty(array.shape, torch::kFloat32);
  auto* out = tensor.data_ptr<float>();
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    Number number;
    std::memcpy(&number, array.bytes.data() + static_cast<std::size_t>(i) * sizeof number,
                sizeof number);
    out[i] = static_cast<float>(number);
    require(std::isfinite(out[i]), where,
            "the number at {} is {}: only finite float32 numbers can be learned from",
            index_text(i, array.shape), number);
  }
  return tensor;
}

Tensor load_array(const std::filesystem::path& path) {
  const auto where = path.string();
  const auto array = load_npy(path);
  require(array.dtype == Dtype::f32 || array.dtype == Dtype::f64, where,
          "holds {}, expected F32 or F64", dtype_name(array.dtype));
  require(array.shape.size() == 3, where, "shape {} is not (sequences, length, width)",
          shape_text(array.shape));
  require(array.shape[0] > 0, where, "shape {} holds no sequences", shape_text(array.shape));
  require(array.shape[1] > 0 && array.shape[2] > 0, where, "shape {} holds no numbers",
          shape_text(array.shape));
  return array.dtype == Dtype::f32 ? to_finite_floats<float>(array, where)
                                   : to_finite_floats<double>(array, where);
}

void require_same_shape(const std::string& folder, const char* one, const Tensor& x,
                        const char* other, const Tensor& y, int64_t from_axis) {
  require(x.sizes().slice(from_axis) == y.sizes().slice(from_axis), folder,
          "{} has shape {}, {} has shape {}", one, shape_text(x.sizes()), other,
          shape_text(y.sizes()));
}

Tensor first_sequences(const Tensor& tensor, int64_t count, const char* key,
                       const std::string& folder) {
  if (count == 0) return tensor;
  require(count <= tensor.size(0), folder, "'{}' is {}, the folder has {}", key, count,
          tensor.size(0));
  return tensor.narrow(0, 0, count).clone();
}

struct FolderOptions {
  std::string data;
  int64_t train_sequences = 0, validation_sequences = 0;  // 0: all of them

  Fields fields() {
    return Fields()
        .add("data", data, "folder of train_x.npy, train_y.npy, val_x.npy and val_y.npy")
        .add("train_sequences", train_sequences, "the first so many; 0: all", {.min = 0})
        .add("validation_sequences", validation_sequences, "the first so many; 0: all", {.min = 0});
  }
};

Dataset load_folder(const nlohmann::json& given, const std::string&) {
  FolderOptions options;
  options.fields().read(given, "folder");
  require(!options.data.empty(), "folder",
          "'data' must name the folder of train_x.npy, train_y.npy, val_x.npy and val_y.npy");
  const std::filesystem::path folder = options.data;
  Dataset data;
  data.task = "folder";
  data.train_x = load_array(folder / "train_x.npy");
  data.train_y = load_array(folder / "train_y.npy");
  data.validation_x = load_array(folder / "val_x.npy");
  data.validation_y = load_array(folder / "val_y.npy");
  require_same_shape(options.data, "train_x.npy", data.train_x, "train_y.npy", data.train_y, 0);
  require_same_shape(options.data, "val_x.npy", data.validation_x, "val_y.npy", data.validation_y,
                     0);
  require_same_shape(options.data, "train_x.npy", data.train_x, "val_x.npy", data.validation_x, 1);
  for (auto* tensor : {&data.train_x, &data.train_y})
    *tensor = first_sequences(*tensor, options.train_sequences, "train_sequences", options.data);
  for (auto* tensor : {&data.validation_x, &data.validation_y})
    *tensor = first_sequences(*tensor, options.validation_sequences, "validation_sequences",
                              options.data);
  return data;
}

}  // namespace

Task folder_task() {
  return {.name = "folder",
          .summary = "your own train_x.npy, train_y.npy, val_x.npy, val_y.npy (N, T, d)",
          .options = OptionSet::of<FolderOptions>(),
          .load = load_folder};
}

}  // namespace geores
