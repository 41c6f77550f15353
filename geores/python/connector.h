// A connection of the registry for calls that bring their own parameters.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "geores/python/operators.h"
#include "geores/residual/registry.h"

namespace geores::python {

// Ends a forward pass at its sublayer.
struct AtSublayer {};

// A connection whose parameters are bound to the tensors of each call.
struct Instance {
  std::shared_ptr<Residual> residual;
  Tensors parameters, buffers;
};

// Everything about one connection that does not change from call to call, and its idle instances:
// calls in several threads need one each.
class Connector {
 public:
  explicit Connector(const std::string& text);

  static Connector& of(const std::string& text);

  Instance take();
  void give_back(Instance instance);
  Instance make(uint64_t seed) const;

  const Traits& traits() const { return traits_; }
  const std::string& name() const { return name_; }
  size_t state_size() const { return parameter_names_.size() + buffer_names_.size(); }
  size_t parameter_count() const { return parameter_names_.size(); }
  bool has_loss() const { return has_loss_; }
  nlohmann::json description() const;

 private:
  std::string name_;
  ResidualConfig config_;
  Traits traits_;
  std::vector<std::string> parameter_names_, buffer_names_, manifold_names_, undecayed_names_;
  bool has_loss_ = false;

  std::mutex mutex_;
  std::vector<Instance> idle_;
};

}  // namespace geores::python
