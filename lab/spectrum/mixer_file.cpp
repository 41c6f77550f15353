#include "lab/spectrum/mixer_file.h"

#include <fmt/ranges.h>

#include <cmath>
#include <cstring>
#include <sstream>
#include <string>

#include "geores/base/error.h"
#include "geores/base/file.h"
#include "geores/base/formats/npy.h"
#include "geores/base/formats/safetensors.h"
#include "geores/base/printable.h"

namespace geores::spectral {
namespace {

using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

std::string name_of(const std::filesystem::path& path) { return path.string(); }

void check_square_and_finite(const Eigen::MatrixXd& mixer, const std::string& where) {
  require(mixer.rows() > 0, where, "holds no matrix");
  require(mixer.rows() == mixer.cols(), where, "a mixer must be square, got {} x {}", mixer.rows(),
          mixer.cols());
  require(mixer.allFinite(), where, "a mixer must be finite, it has a NaN or infinite entry");
}

std::vector<double> to_doubles(Dtype dtype, std::span<const std::byte> bytes,
                               const std::string& where, const std::string& what) {
  if (dtype == Dtype::f64) {
    std::vector<double> values(bytes.size() / sizeof(double));
    std::memcpy(values.data(), bytes.data(), values.size() * sizeof(double));
    return values;
  }
  require(dtype == Dtype::f32, where, "{} must be F64 or F32, got {}", what, dtype_name(dtype));
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return {values.begin(), values.end()};
}

Eigen::MatrixXd load_npy_matrix(const std::filesystem::path& path) {
  const auto where = name_of(path);
  const NpyArray array = load_npy(path);
  require(array.shape.size() == 2, where, "a mixer must have 2 dimensions, got {}",
          array.shape.size());
  const auto values = to_doubles(array.dtype, array.bytes, where, "a mixer");
  return Eigen::Map<const RowMajor>(values.data(), array.shape[0], array.shape[1]);
}

Eigen::MatrixXd load_text_matrix(const std::filesystem::path& path) {
  const auto where = name_of(path);
  std::istringstream lines(read_text_file(path));
  std::vector<std::vector<double>> rows;
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    line.resize(std::min(line.find('#'), line.size()));
    for (char& c : line) {
      if (c == ',' || c == '\r') c = ' ';
    }
    std::vector<double> row;
    std::istringstream words(line);
    for (std::string word; words >> word;) {
      char* end = nullptr;
      row.push_back(std::strtod(word.c_str(), &end));
      require(end == word.c_str() + word.size(), where, "line {}: {} is not a number", number,
              quote(word));
    }
    if (row.empty()) continue;
    const auto wanted = rows.empty() ? row.size() : rows.front().size();
    require(row.size() == wanted, where, "line {}: {} numbers, the rows before have {}", number,
            row.size(), wanted);
    rows.push_back(std::move(row));
  }
  if (rows.empty()) return {};
  Eigen::MatrixXd matrix(rows.size(), rows.front().size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    matrix.row(static_cast<Eigen::Index>(i)) =
        Eigen::Map<const Eigen::RowVectorXd>(rows[i].data(), matrix.cols());
  }
  return matrix;
}

std::string tensor_name(std::size_t layer) { return fmt::format("mixer/{:03}", layer); }

std::vector<double> optional_values(const Safetensors& file, const std::string& name,
                                    const std::string& where) {
  if (!file.contains(name)) return {};
  const auto& view = file.at(name);
  auto values = to_doubles(view.dtype, view.bytes, where, "tensor " + quote(name));
  for (const double value : values) {
    require(std::isfinite(value) && value >= 0, where, "tensor {} must be finite and >= 0, got {}",
            quote(name), value);
  }
  return values;
}

}  // namespace

Eigen::MatrixXd load_mixer(const std::filesystem::path& path) {
  const Eigen::MatrixXd mixer =
      path.extension() == ".npy" ? load_npy_matrix(path) : load_text_matrix(path);
  check_square_and_finite(mixer, name_of(path));
  return mixer;
}

RunMixers load_run_mixers(const std::filesystem::path& run) {
  const auto path = run / "mixers.safetensors";
  const auto where = name_of(path);
  const auto file = Safetensors::load(path);
  RunMixers result;
  for (std::size_t layer = 0; file.contains(tensor_name(layer)); ++layer) {
    const auto& view = file.at(tensor_name(layer));
    const auto what = "tensor " + quote(tensor_name(layer));
    const auto n = result.mixers.empty() ? (view.shape.empty() ? 0 : view.shape[0])
                                         : result.mixers.front().rows();
    require(view.shape == std::vector<int64_t>({n, n}) && n > 0, where,
            "{} must be ({}, {}), got ({})", what, n, n, fmt::join(view.shape, ", "));
    const auto values = to_doubles(view.dtype, view.bytes, where, what);
    result.mixers.push_back(Eigen::Map<const RowMajor>(values.data(), n, n));
    require(result.mixers.back().allFinite(), where, "{} has a NaN or infinite entry", what);
  }
  require(!result.mixers.empty(), where, "has no tensor 'mixer/000'");
  std::size_t found = 0;
  for (const auto& name : file.names()) found += name.starts_with("mixer/");
  require(found == result.mixers.size(), where, "has {} tensors mixer/..., of which {} is missing",
          found, quote(tensor_name(result.mixers.size())));
  result.sigma2 = optional_values(file, "sigma2", where);
  require(result.sigma2.empty() || result.sigma2.size() == result.mixers.size(), where,
          "tensor 'sigma2' has {} values for {} mixers", result.sigma2.size(),
          result.mixers.size());
  result.jacobian = optional_values(file, "jacobian", where);
  return result;
}

}  // namespace geores::spectral
