// What the processes of a run sum after each backward pass, in one collective: the flat gradients,
// behind them those of parameters that are not flat (on manifolds), a few numbers, and whether a
// process was asked to stop. All of it stays where it is, so a recorded step can fill it and another
// one read it.
#pragma once

#include <vector>

#include "geores/train/communication/communicator.h"
#include "geores/train/optimizer/flat_parameters.h"

namespace geores {

class GradientSum {
 public:
  // `manifold`: parameters with gradients of their own; `more`: values that the owner fills and reads
  // himself (more()). `flat` must have spare_values() of room.
  GradientSum(const Communicator& communicator, FlatParameters& flat, std::vector<Tensor> manifold,
              int64_t numbers, int64_t more = 0);

  // None where nothing is summed.
  static int64_t spare_values(const Communicator& communicator, const std::vector<Tensor>& manifold,
                              int64_t numbers, int64_t more = 0);

  // After the backward pass: the numbers, 0-dimensional each, and the manifold gradients.
  void fill(const std::vector<Tensor>& numbers);

  void sum() const;

  // Afterwards: the sums. Manifold parameters have theirs as gradients again.
  void give_back() const;
  Tensor number(int64_t index) const { return numbers_[index]; }
  Tensor& more() { return more_; }

  // This process wants to stop. Everybody knows it after the next sum.
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
