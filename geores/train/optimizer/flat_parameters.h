// A model's trainable parameters as views of one flat buffer, and their gradients as views of
// another, so that clipping and the optimiser are one pass over contiguous memory.
// Tensors with weight decay come first: those of rank >= 2, except for exceptions that the model
// names. Manifold parameters are not in the buffer, and neither are frozen parameters
// (requires_grad false). The model must already have its final dtype and device, and must not be
// moved afterwards.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "geores/ops/gradients/step_parameters.h"
#include "geores/ops/torch.h"

namespace geores {

using torch::Tensor;

class FlatParameters {
 public:
  // `spare`: the number of spare values behind the gradients, contiguous with them.
  FlatParameters(torch::nn::Module& module, const std::vector<Tensor>& left_out = {},
                 const std::vector<Tensor>& decay_exceptions = {}, int64_t spare = 0);

  Tensor& values() { return values_; }
  Tensor& gradients() { return gradients_; }
  Tensor& gradients_and_spare() { return gradients_and_spare_; }
  Tensor spare() const { return gradients_and_spare_.slice(0, values_.numel()); }

  // Runs pass(0), …, pass(passes − 1), each a forward and a backward pass; gradients() is then the sum
  // of their gradients. Inside, Execution::parameters is this step's.
  void collect_gradients(int64_t passes, const std::function<void(int64_t)>& pass);

  // For recorded steps: from here on the optimiser's kernel prepares the next step (gradients of
  // zero and, if products are in bfloat16, the values in that type), which saves a pass for each.
  // No other code may add to the gradients between two steps.
  void keep_ready();
  bool ready() const { return ready_; }
  const Tensor& product_values() const { return product_values_; }  // undefined if not kept

  // The optimiser calls this after each step; left_ready: its kernel has cleared the gradients and
  // written product_values().
  void optimizer_wrote(bool left_ready);

  // Call this before a recorded step is replayed. It refreshes the prepared values if values() or a
  // parameter was written since. It refuses a parameter with a hook, and one that was frozen or
  // unfrozen since, because a recording would ignore both.
  void before_replay();

  using Named = std::vector<std::pair<std::string, Tensor>>;
  const Named& trained() const { return trained_; }  // in the order of the flat buffers

  int64_t size() const { return values_.numel(); }
  int64_t decayed() const { return decayed_; }  // number of leading values with weight decay

 private:
  FlatParameters(Named trained, Named frozen, const std::vector<Tensor>& decay_exceptions,
                 int64_t spare);

  void begin_gradients();
  void finish_gradients();
  void require_as_made() const;  // throws if a parameter was frozen or unfrozen since
  void refresh();                // recomputes the prepared values after values were written
  int64_t versions() const;      // grows with every write through LibTorch

  Named trained_, frozen_;
  std::vector<Tensor> parameters_;  // the trained ones
  Tensor values_, gradients_and_spare_, gradients_;
  std::vector<Tensor> views_;  // views_[i] is parameters_[i]'s part of gradients_
  StepParameters step_;
  int64_t decayed_ = 0;
  bool ready_ = false, gradients_clear_ = false;
  Tensor product_values_;
  int64_t copied_versions_ = -1;  // versions of the values that product_values_ copies; −1: stale
};

}  // namespace geores
