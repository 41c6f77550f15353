// Types of the factors of large products (Execution::precision). On a GPU they are tensors in
// bfloat16. On a CPU tensors stay float32, and a kernel rounds factors while it packs them. Each
// operation chooses; autocast would also round the small operators on the state.
#pragma once

#include "geores/ops/run/execution.h"
#include "geores/ops/torch.h"

namespace geores {

using torch::Tensor;

bool products_in_bfloat16();

// x as a product's factor: in bfloat16 if that is requested and x is float32. Without gradients, a
// parameter's copy comes from the training step that keeps one (step_parameters.h).
Tensor for_product(const Tensor& x);

// The type of activations that feed a product, for a state of type `state`.
torch::ScalarType product_type(torch::ScalarType state);

// x as the residual state is stored: in bfloat16 if that is requested (Precision::bf16_state) and x
// is float32 on a GPU. The second function converts back for operations that do not support such a
// state.
Tensor in_state_type(const Tensor& x);
Tensor in_full_type(const Tensor& x);

// The type of sums over a state of type `state`, of its routes and its mixers.
torch::ScalarType full_type(torch::ScalarType state);

// Sets whether LibTorch's float32 products on a GPU may use tf32, in all threads from now on
// (LibTorch has one switch for the process): yes for any precision except fp32.
void set_float32_products(Precision precision);
bool float32_products_in_tf32();

}  // namespace geores
