#include "geores/ops/dense/weight_products.h"

#include <algorithm>

#include "geores/kernels/dense/weight_gradient.h"
#include "geores/kernels/dense/weight_products.h"
#include "geores/ops/gradients/step_parameters.h"
#include "geores/ops/run/dispatch.h"
#include "geores/ops/run/kernel_choice.h"
#include "geores/ops/run/saved_state.h"

namespace geores {
namespace {

using namespace fused;

// Products in bfloat16 on a GPU; factors a, b of the first pair, then of the second, and so on.
class HalfWeightProducts : public torch::autograd::Function<HalfWeightProducts> {
  struct Kept {
    std::vector<Tensor> halves;
    std::vector<Tensor> slots;  // of the factors' gradients

    template <class Self, class F>
    static void tensors(Self& s, F&& f) {
      f(s.halves);
    }
  };

 public:
  static tensor_list forward(AutogradContext* context, at::TensorList factors,
                             bool with_gradients) {
    tensor_list halves, products;
    for (const auto& factor : factors) halves.push_back(for_product(factor));
    std::vector<kernels::WeightProduct> together;
    for (size_t i = 0; i < halves.size(); i += 2) {
      const auto &a = halves[i], &b = halves[i + 1];
      const bool fit = fit_kernel(a, b);
      products.push_back(fit ? torch::empty({a.size(0), b.size(1)}, a.options()) : at::mm(a, b));
      if (fit)
        together.push_back({.a = values<kernels::BFloat16>(a),
                            .b = values<kernels::BFloat16>(b),
                            .product = values<kernels::BFloat16>(products.back()),
                            .rows = a.size(0),
                            .inner = a.size(1),
                            .columns = b.size(1)});
    }
    if constexpr (kernels::kHasCuda)
      kernels::multiply_weights(current_cuda_stream(), together.data(),
                                static_cast<int>(together.size()));
    tensor_list slots;
    for (const auto& factor : factors) slots.push_back(slot_of(factor));
    if (with_gradients) make_slots(halves, products, slots);
    save(context, Kept{.halves = halves, .slots = slots});
    context->set_materialize_grads(false);  // a gradient that is added to a slot is undefined here
    return products;
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto [halves, slots] = saved<Kept>(context);
    tensor_list result(halves.size() + 1);
    for (size_t i = 0; i < halves.size(); i += 2) {
      if (!gradients[i / 2].defined()) continue;
      const auto d = gradients[i / 2].contiguous();
      result[i] = slot_product(d, halves[i + 1].t(), torch::kFloat32, slots[i]);
      result[i + 1] = slot_product(halves[i].t(), d, torch::kFloat32, slots[i + 1]);
    }
    return result;
  }

 private:
  static bool fit_kernel(const Tensor& a, const Tensor& b) {
    const auto half = [](const Tensor& t) {
      return t.scalar_type() == torch::kBFloat16 && t.dim() == 2 && t.is_contiguous();
    };
    return half(a) && half(b) && a.size(1) == b.size(0) &&
           kernels::fits_weight_product(a.size(0), a.size(1), b.size(1));
  }

  // Allocates gradient slots for products whose factors have slots. After the backward pass one
  // kernel propagates these gradients to the factors' slots. Where a product or a factor has no
  // slot, autograd carries the gradient; the same holds for large products, which use the BLAS.
  static void make_slots(const tensor_list& halves, const tensor_list& products,
                         const tensor_list& slots) {
    const auto taker = weight_gradients();
    if (!taker) return;
    std::vector<kernels::WeightProductGradient> together;
    std::vector<Tensor> used;
    for (size_t i = 0; i < halves.size(); i += 2) {
      const auto &a = halves[i], &b = halves[i + 1];
      const auto &da = slots[i], &db = slots[i + 1];
      if (!da.defined() || !db.defined() || !fit_kernel(a, b) ||
          !kernels::fits_weight_gradient(a.size(0), b.size(1)))
        continue;
      const auto d = make_gradient_slot(products[i / 2]);
      if (!d.defined()) continue;
      together.push_back({.a = values<kernels::BFloat16>(a),
                          .b = values<kernels::BFloat16>(b),
                          .d = values<float>(d),
                          .da = values<float>(da),
                          .db = values<float>(db),
                          .rows = a.size(0),
                          .inner = a.size(1),
                          .columns = b.size(1)});
      used.insert(used.end(), {a, b, d, da, db});
    }
    if (together.empty()) return;
    taker->at_end(
        [together]([[maybe_unused]] kernels::CudaStream stream) {
          if constexpr (kernels::kHasCuda)
            kernels::add_weight_product_gradients(stream, together.data(),
                                                  static_cast<int>(together.size()));
        },
        std::move(used));
  }

  static Tensor slot_of(const Tensor& factor) {
    return factor.requires_grad() ? gradient_slot(factor) : Tensor();
  }
};

bool same(const WeightFactors& one, const WeightFactors& other) {
  return one.first.is_same(other.first) && one.second.is_same(other.second);
}

}  // namespace

std::vector<Tensor> weight_products(const std::vector<WeightFactors>& factors) {
  std::vector<WeightFactors> distinct;
  std::vector<size_t> which;  // indices of the distinct ones
  for (const auto& pair : factors) {
    const auto found = std::find_if(distinct.begin(), distinct.end(),
                                    [&](const WeightFactors& other) { return same(other, pair); });
    which.push_back(static_cast<size_t>(found - distinct.begin()));
    if (found == distinct.end()) distinct.push_back(pair);
  }

  std::vector<Tensor> products;
  if (!distinct.empty() && KernelChoice::half("weight_products", distinct[0].first).runs()) {
    tensor_list flat;
    for (const auto& [a, b] : distinct) flat.insert(flat.end(), {a, b});
    products = HalfWeightProducts::apply(at::TensorList(flat), torch::GradMode::is_enabled());
  } else {
    for (const auto& [a, b] : distinct) products.push_back(a.matmul(b));
  }

  std::vector<Tensor> all;
  for (const auto i : which) all.push_back(products[i]);
  return all;
}

}  // namespace geores
