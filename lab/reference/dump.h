// Reading a dump of another implementation, and judging ours by it.
#pragma once

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "geores/base/error.h"
#include "geores/base/formats/safetensors.h"
#include "geores/ops/torch.h"
#include "geores/storage/state_file.h"
#include "lab/reference/verify.h"

namespace geores {

using torch::Tensor;

inline constexpr double kLimit = 1e-9;
inline constexpr double kLimitAfterTraining = 1e-7;

// Reads tensors of a dump, checking dtype and shape, and remembers which were asked for.
class Dump {
 public:
  Dump(const Safetensors& file, const std::string& name) : file_(file), name_(name) {}

  Tensor read(const std::string& tensor, Dtype dtype = Dtype::f64) {
    const auto& view = file_.at(tensor);
    require(view.dtype == dtype, name_, "tensor '{}' has dtype {}, expected {}", tensor,
            dtype_name(view.dtype), dtype_name(dtype));
    read_.insert(tensor);
    return to_tensor(view);
  }

  Tensor read(const std::string& tensor, at::IntArrayRef shape, Dtype dtype = Dtype::f64) {
    const auto value = read(tensor, dtype);
    require(value.sizes() == shape, name_, "tensor '{}' has shape [{}], expected [{}]", tensor,
            fmt::join(value.sizes(), ", "), fmt::join(shape, ", "));
    return value;
  }

  void require_all_read() const {
    for (const auto& tensor : file_.names())
      require(read_.contains(tensor), name_, "tensor '{}' does not belong to this model", tensor);
  }

  std::string metadata(const std::string& key) const {
    const auto found = file_.metadata().find(key);
    require(found != file_.metadata().end(), name_, "metadata has no '{}'", key);
    return found->second;
  }

  const std::string& name() const { return name_; }

 private:
  const Safetensors& file_;
  std::string name_;
  std::set<std::string> read_;
};

// Named tensors that are judged together.
class Group {
 public:
  Group(std::string name, double limit) : name_(std::move(name)), limit_(limit) {}

  void compare(const std::string& tensor, const Tensor& ours, const Tensor& expected) {
    const auto difference = (ours - expected).abs().max().item<double>();
    magnitude_ = std::max(magnitude_, expected.abs().max().item<double>());
    if (std::isnan(difference) || !(difference <= largest_)) {
      if (!std::isnan(largest_)) worst_ = tensor;
      largest_ = std::isnan(largest_) ? largest_ : difference;
    }
  }

  GroupError result() const {
    return {.group = name_,
            .error = largest_ / (magnitude_ > 0 ? magnitude_ : 1.0),
            .limit = limit_,
            .worst = worst_};
  }

 private:
  std::string name_, worst_;
  double limit_, largest_ = -1, magnitude_ = 0;
};

}  // namespace geores
