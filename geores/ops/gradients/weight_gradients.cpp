#include "geores/ops/gradients/weight_gradients.h"

#include <utility>

#include "geores/kernels/dense/weight_gradient.h"
#include "geores/ops/dense/products.h"
#include "geores/ops/gradients/step_parameters.h"
#include "geores/ops/run/dispatch.h"

namespace geores {
namespace {

using namespace fused;

// Products of two transformer blocks, each with two of attention and two of the perceptron: four
// fill a GPU, and eight run longer than their launch takes.
constexpr size_t kProductsAtOnce = kernels::kMostWeightGradients;

// The BLAS has fast products only for results aligned to 16 bytes.
bool is_aligned(const Tensor& x) { return reinterpret_cast<uintptr_t>(x.data_ptr()) % 16 == 0; }

}  // namespace

WeightGradients::WeightGradients() {
  if constexpr (kernels::kHasCuda) side_ = make_side_stream();
}

WeightGradients::~WeightGradients() {
  drop();
  if constexpr (kernels::kHasCuda) destroy_side_stream(side_);
}

bool WeightGradients::fit(const Tensor& dy, const Tensor& x) {
  const auto half = [](const Tensor& t) {
    return t.scalar_type() == torch::kBFloat16 && t.dim() == 2 && t.is_contiguous();
  };
  return kernels::kHasCuda && half(dy) && half(x) && dy.size(0) == x.size(0) && dy.size(0) > 0 &&
         kernels::fits_weight_gradient(dy.size(1), x.size(1));
}

void WeightGradients::add(const Tensor& dy, const Tensor& x, const Tensor& sum) {
  auto& products = collected_.products;
  // Launched before the next product, not after the last one: work that depends on a product
  // belongs to its launch.
  if (!products.empty() &&
      (products.size() == kProductsAtOnce || products.front().dy.size(0) != dy.size(0)))
    run();
  products.push_back({dy, x, sum});
}

void WeightGradients::then(std::function<void(kernels::CudaStream)> f, std::vector<Tensor> used) {
  collected_.used.insert(collected_.used.end(), used.begin(), used.end());
  collected_.after.push_back(std::move(f));
  if (collected_.products.empty()) run();
}

void WeightGradients::at_end(std::function<void(kernels::CudaStream)> f, std::vector<Tensor> used) {
  last_.push_back({std::move(f), std::move(used)});
}

void WeightGradients::run() {
  if (collected_.products.empty() && collected_.after.empty()) return;
  let_go();
  running_ = std::move(collected_);
  collected_ = {};
  if constexpr (kernels::kHasCuda) {
    wait_for_event(side_, record_event(current_cuda_stream()));
    std::vector<kernels::WeightGradient> products;
    for (const auto& [dy, x, sum] : running_.products)
      products.push_back({.dy = values<kernels::BFloat16>(dy),
                          .x = values<kernels::BFloat16>(x),
                          .dw = values<float>(sum),
                          .out = dy.size(1),
                          .in = x.size(1)});
    if (!products.empty())
      kernels::add_weight_gradients(side_, products.data(), static_cast<int>(products.size()),
                                    running_.products.front().dy.size(0));
    for (const auto& f : running_.after) f(side_);
    running_.done = record_event(side_);
  }
}

// The allocator returns memory to the stream that it came from, which must not overtake its
// readers.
void WeightGradients::let_go() {
  if constexpr (kernels::kHasCuda)
    if (running_.done != nullptr) wait_for_event(current_cuda_stream(), running_.done);
  running_ = {};
}

void WeightGradients::finish() {
  for (auto& [f, used] : std::exchange(last_, {})) then(std::move(f), std::move(used));
  run();
  let_go();
}

void WeightGradients::drop() noexcept {
  last_.clear();
  collected_ = {};
  try {
    let_go();
  } catch (const std::exception&) {  // the pass has failed already; that error is reported
    running_ = {};
  }
}

WeightGradient WeightGradient::of(const Tensor& weight) {
  return {gradient_slot(weight), weight_gradients()};
}

Tensor WeightGradient::from(const Tensor& dy, const Tensor& x, torch::ScalarType type) const {
  if (!taker || !slot.defined()) return multiply(dy.t(), x, type);
  if (WeightGradients::fit(dy, x)) {
    taker->add(dy, x, slot);
    return {};
  }
  return slot_product(dy.t(), x, type, slot);
}

Tensor slot_product(const Tensor& a, const Tensor& b, torch::ScalarType type, const Tensor& slot) {
  // This stream reads and writes the sum; weights of the side stream have their sum on that stream.
  const bool side_takes = kernels::fits_weight_gradient(a.size(0), b.size(1));
  if (!slot.defined() || side_takes || !is_aligned(slot)) return multiply(a, b, type);
  Tensor sum = slot;
  add_product(a, b, sum);
  return {};
}

}  // namespace geores
