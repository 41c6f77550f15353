#include "geores/train/text_evaluation.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "geores/base/error.h"
#include "geores/train/evaluation.h"

namespace geores {
namespace {

// Writes input and targets of the window that scores ids [from, to). Input position i is the id
// before target i; the target of an unscored position is −1.
void fill_window(const uint16_t* ids, int64_t from, int64_t to, const TextWindows& windows,
                 int64_t* x, int64_t* y) {
  const auto start = std::max<int64_t>(0, to - windows.context);
  for (int64_t i = 0; i < windows.context; ++i) {
    const auto target = start + i;
    const bool inside = target < to;
    x[i] = target == 0 ? windows.before_first : inside ? ids[target - 1] : 0;
    y[i] = inside && target >= from ? ids[target] : -1;
  }
}

}  // namespace

double TextLoss::perplexity() const { return std::exp(mean()); }

double TextLoss::bits_per_byte(int64_t bytes) const {
  return nats / (std::numbers::ln2 * static_cast<double>(bytes));
}

double TextLoss::word_perplexity(int64_t words) const {
  return std::exp(nats / static_cast<double>(words));
}

TextLoss text_loss(Model& model, const Tensor& ids, const TextWindows& windows,
                   const Communicator& communicator) {
  const auto shape = model.input();
  require(windows.context >= 1 && windows.context <= shape.length, "eval",
          "a context of {} is not in 1..{}, the positions of the model", windows.context,
          shape.length);
  require(windows.stride >= 1 && windows.stride <= windows.context, "eval",
          "the stride must be in 1..{}, got {}", windows.context, windows.stride);
  require(ids.dim() == 1 && ids.scalar_type() == torch::kInt16 && ids.is_contiguous(), "eval",
          "expected a row of int16 ids");
  const auto n = ids.size(0), count = (n + windows.stride - 1) / windows.stride;
  const auto together =
      std::clamp<int64_t>(windows.most_logits / (windows.context * shape.vocabulary), 1, 64);
  const auto* values = reinterpret_cast<const uint16_t*>(ids.data_ptr<int16_t>());
  const auto device = model.parameters().front().device();
  const auto loss_of = [&](int64_t batch) {
    const auto first = batch * together;
    const auto rows = std::min(together, count - first);
    const auto x = torch::empty({rows, windows.context}, torch::kInt64), y = torch::empty_like(x);
    for (int64_t row = 0; row < rows; ++row) {
      const auto from = (first + row) * windows.stride;
      fill_window(values, from, std::min(from + windows.stride, n), windows,
                  x.data_ptr<int64_t>() + row * windows.context,
                  y.data_ptr<int64_t>() + row * windows.context);
    }
    return model.evaluate({x.to(device), y.to(device)});
  };
  const auto total = sum_over_batches((count + together - 1) / together, communicator, loss_of);
  return {.nats = total.sum, .ids = total.terms};
}

}  // namespace geores
