// The values that the processes of a run sum after each backward pass, in one collective: the flat
// gradients, the gradients of parameters on manifolds, a few numbers, and a stop flag. They keep
// their addresses, so one CUDA graph can fill them and another one read them.
#pragma once

#include <vector>

#include "geores/train/communication/communicator.h"
#include "geores/train/optimizer/flat_parameters.h"

namespace geores {

class GradientSum {
 public:
  // `manifold`: parameters whose gradients are not in the flat buffer; `more`: values that the
  // owner fills and reads (more()). `flat` must have spare_values() spare values.
  GradientSum(const Communicator& communicator, FlatParameters& flat, std::vector<Tensor> manifold,
              int64_t numbers, int64_t more = 0);

  // 0 where nothing is summed.
  static int64_t spare_values(const Communicator& communicator, const std::vector<Tensor>& manifold,
                              int64_t numbers, int64_t more = 0);

  // Packs, after the backward pass, the numbers (0-dimensional each) and the manifold gradients.
  void fill(const std::vector<Tensor>& numbers);

  void sum() const;

  // Unpacks the sums. Manifold parameters have theirs as gradients again.
  void give_back() const;
  Tensor number(int64_t index) const { return numbers_[index]; }
  Tensor& more() { return more_; }

  // Requests a stop. Every process sees the request after the next sum.
  void ask_to_stop();
  bool stop_was_asked() const;  // waits for the sum

 private:
  const Communicator& communicator_;
  FlatParameters& flat_;
  std::vector<Tensor> manifold_, buffers_;
  Tensor numbers_, stop_, more_;
  bool asked_ = false;
};

}  // namespace geores
