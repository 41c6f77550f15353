#include "geores/train/communication/gradient_sum.h"

#include "geores/base/error.h"

namespace geores {

int64_t GradientSum::spare_values(const Communicator& communicator,
                                  const std::vector<Tensor>& manifold, int64_t numbers,
                                  int64_t more) {
  if (!communicator.is_group()) return 0;
  int64_t count = numbers + 1 + more;
  for (const auto& parameter : manifold) count += parameter.numel();
  return count;
}

GradientSum::GradientSum(const Communicator& communicator, FlatParameters& flat,
                         std::vector<Tensor> manifold, int64_t numbers, int64_t more)
    : communicator_(communicator), flat_(flat), manifold_(std::move(manifold)) {
  if (!communicator.is_group()) return;
  const auto& spare = flat.spare();
  require(spare.numel() == spare_values(communicator, manifold_, numbers, more), "train",
          "there are {} spare values behind the gradients", spare.numel());
  int64_t begin = 0;
  const auto take = [&](int64_t count) {
    begin += count;
    return spare.slice(0, begin - count, begin);
  };
  for (const auto& parameter : manifold_)
    buffers_.push_back(take(parameter.numel()).view(parameter.sizes()));
  numbers_ = take(numbers);
  stop_ = take(1);
  more_ = take(more);
}

void GradientSum::fill(const std::vector<Tensor>& numbers) {
  const torch::NoGradGuard no_grad;
  for (size_t i = 0; i < manifold_.size(); ++i) {
    if (const auto& gradient = manifold_[i].grad(); gradient.defined())
      buffers_[i].copy_(gradient);
    else
      buffers_[i].zero_();
  }
  for (size_t i = 0; i < numbers.size(); ++i) numbers_[static_cast<int64_t>(i)].copy_(numbers[i]);
}

void GradientSum::sum() const { communicator_.sum(flat_.gradients_and_spare()); }

void GradientSum::give_back() const {
  for (size_t i = 0; i < manifold_.size(); ++i) manifold_[i].mutable_grad() = buffers_[i];
}

void GradientSum::ask_to_stop() {
  if (asked_) return;
  asked_ = true;
  stop_.fill_(1);
}

bool GradientSum::stop_was_asked() const {
  communicator_.settle();
  return stop_.item<double>() != 0;
}

}  // namespace geores
