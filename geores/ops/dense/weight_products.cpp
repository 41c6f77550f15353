#include "geores/ops/dense/weight_products.h"

#include "geores/kernels/dense/weight_products.h"
#include "geores/ops/dense/products.h"
#include "geores/ops/gradients/step_parameters.h"
#include "geores/ops/run/dispatch.h"

namespace geores {
namespace {

using namespace fused;

// Products in bfloat16 on a GPU; factors a, b of the first, then of the second, and so on.
class HalfWeightProducts : public torch::autograd::Function<HalfWeightProducts> {
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
    if (with_gradients) make_places(factors, halves, products);
    context->save_for_backward(halves);
    context->set_materialize_grads(false);  // there is none where it is added to a place
    return products;
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto halves = context->get_saved_variables();
    tensor_list result(halves.size() + 1);
    for (size_t i = 0; i < halves.size(); i += 2) {
      if (!gradients[i / 2].defined()) continue;
      const auto d = gradients[i / 2].contiguous();
      result[i] = multiply(d, halves[i + 1].t(), torch::kFloat32);
      result[i + 1] = multiply(halves[i].t(), d, torch::kFloat32);
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

  // Places for the gradients of products whose factors have them. What is added there goes on to
  // the factors when the backward pass has ended; what autograd gives besides goes its own way.
  static void make_places(at::TensorList factors, const tensor_list& halves,
                          const tensor_list& products) {
    const auto taker = weight_gradients();
    if (!taker) return;
    std::vector<kernels::WeightProductGradient> together;
    std::vector<Tensor> used;
    for (size_t i = 0; i < halves.size(); i += 2) {
      const auto &a = halves[i], &b = halves[i + 1];
      const auto da = place_of(factors[i]), db = place_of(factors[i + 1]);
      if (!da.defined() || !db.defined() || !fit_kernel(a, b)) continue;
      const auto d = make_gradient_place(products[i / 2]);
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

  static Tensor place_of(const Tensor& factor) {
    return factor.requires_grad() ? gradient_place(factor) : Tensor();
  }
};

tensor_list half_weight_products(const tensor_list& factors) {
  return HalfWeightProducts::apply(at::TensorList(factors), torch::GradMode::is_enabled());
}

}  // namespace

thread_local std::vector<WeightProducts::Made> WeightProducts::made_;

std::vector<WeightProducts::Made> WeightProducts::make(const Factors& factors) {
  std::vector<Made> made;
  tensor_list all;
  for (const auto& [a, b] : factors)
    if (runs_half_product(a)) {
      made.push_back({a, b, {}});
      all.insert(all.end(), {a, b});
    }
  if (made.empty()) return made;
  const auto products = half_weight_products(all);
  for (size_t i = 0; i < made.size(); ++i) made[i].product = products[i];
  return made;
}

WeightProducts::WeightProducts(const Factors& factors)
    : before_(std::exchange(made_, make(factors))) {}

WeightProducts::~WeightProducts() { made_ = std::move(before_); }

Tensor weight_product(const Tensor& a, const Tensor& b) {
  if (!runs_half_product(a)) return a.matmul(b);
  for (const auto& made : WeightProducts::made_)
    if (made.a.is_same(a) && made.b.is_same(b)) return made.product;
  return half_weight_products({a, b})[0];
}

}  // namespace geores
