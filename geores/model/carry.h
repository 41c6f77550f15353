// Named tensors that a model passes from one training step to the next. They keep their addresses,
// which a recorded step uses, so a pass updates their values in place. Checkpoints save them. The
// first axis is that of the batch's sequences, so a micro-batch has its own part.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "geores/ops/torch.h"

namespace geores {

using torch::Tensor;

class Carry {
 public:
  bool empty() const { return tensors_.empty(); }
  const std::vector<std::pair<std::string, Tensor>>& all() const { return tensors_; }

  void add(const std::string& name, const Tensor& initial);
  const Tensor& at(const std::string& name) const;
  bool contains(const std::string& name) const;

  // Overwrites the values of one tensor; without gradients.
  void set(const std::string& name, const Tensor& value);

  // Views of the rows of part `index` of `parts` equal ones.
  Carry part(int64_t index, int64_t parts) const;

 private:
  std::vector<std::pair<std::string, Tensor>> tensors_;
};

}  // namespace geores
