// A model's trainable parameters as views of one flat buffer, and their gradients as views of
// another, so that clipping and the optimiser are one pass over contiguous memory.
// Tensors that decay come first: those of rank >= 2, but for exceptions that the model names.
// Manifold parameters stay out, and so does a parameter that needs no gradient: it is frozen, and
// nothing touches it.
// The model must already have its final dtype and device, and must not be moved afterwards.
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
  // `spare`: values of room behind the gradients, in one piece with them.
  FlatParameters(torch::nn::Module& module, const std::vector<Tensor>& left_out = {},
                 const std::vector<Tensor>& decay_exceptions = {}, int64_t spare = 0);

  Tensor& values() { return values_; }
  Tensor& gradients() { return gradients_; }
  Tensor& gradients_and_spare() { return gradients_and_spare_; }
  Tensor spare() const { return gradients_and_spare_.slice(0, values_.numel()); }

  // Runs pass(0), …, pass(passes − 1), each a forward and a backward pass; gradients() is then the sum
  // of their gradients. Inside, Execution::parameters is this step's.
  void collect_gradients(int64_t passes, const std::function<void(int64_t)>& pass);

  // For steps that are recorded: from here on an optimiser's kernel leaves what the next step begins
  // with, gradients of zero and, if products are in bfloat16 now, the values in that type. Neither
  // takes a pass of its own then. Others may not add to the gradients between two steps.
  void keep_ready();
  bool ready() const { return ready_; }
  const Tensor& product_values() const { return product_values_; }  // undefined if not kept

  // Called by the optimiser after each step; left_ready: its kernel has cleared the gradients and written
  // product_values().
  void optimizer_wrote(bool left_ready);

  // Before a recorded step is replayed. Makes what is kept ready anew if somebody has written to
  // values() or to a parameter since. Refuses a parameter with a hook, or one that was frozen or
  // unfrozen since: a recording would not notice either.
  void before_replay();

  using Named = std::vector<std::pair<std::string, Tensor>>;
  const Named& trained() const { return trained_; }  // in the order of the flat buffers

  int64_t size() const { return values_.numel(); }
  int64_t decayed() const { return decayed_; }  // how many leading values decay

 private:
  FlatParameters(Named trained, Named frozen, const std::vector<Tensor>& decay_exceptions,
                 int64_t spare);

  void begin_gradients();
  void finish_gradients();
  void require_as_made() const;  // nothing frozen or unfrozen since
  void refresh();                // what is kept ready, after values were written
  int64_t versions() const;      // grows with every write through LibTorch

  Named trained_, frozen_;
  std::vector<Tensor> parameters_;  // the trained ones
  Tensor values_, gradients_and_spare_, gradients_;
  std::vector<Tensor> views_;  // views_[i] is parameters_[i]'s part of gradients_
  StepParameters step_;
  int64_t decayed_ = 0;
  bool ready_ = false, gradients_clear_ = false;
  Tensor product_values_;
  int64_t copied_versions_ = -1;  // of the values that product_values_ copies; −1: stale
};

}  // namespace geores
