// Products of weights with weights on a GPU, and their gradients: dozens of small ones in one
// launch.
#pragma once

#include <cstdint>

#include "geores/kernels/device.h"

namespace geores::kernels {

// product (rows, columns) = a (rows, inner) b (inner, columns). Sizes are multiples of 8. The
// product is aligned to 4 bytes. a and b may have any address; they are faster if aligned to 16
// bytes.
struct WeightProduct {
  const BFloat16 *a, *b;
  BFloat16* product;
  int64_t rows, inner, columns;
};

constexpr bool fits_weight_product(int64_t rows, int64_t inner, int64_t columns) {
  return rows > 0 && inner > 0 && columns > 0 && rows % 8 == 0 && inner % 8 == 0 &&
         columns % 8 == 0;
}

inline constexpr int kMostWeightProducts = 32;  // in one launch; more take several launches

void multiply_weights(CudaStream stream, const WeightProduct* products, int count);

// da += d bᵀ and db += aᵀ d, with d rounded to bfloat16. d is aligned to 16 bytes.
struct WeightProductGradient {
  const BFloat16 *a, *b;
  const float* d;
  float *da, *db;
  int64_t rows, inner, columns;
};

// The buffers that are added to may be the same or overlap. Additions come in any order, so results
// differ in the last digits from run to run.
void add_weight_product_gradients(CudaStream stream, const WeightProductGradient* gradients,
                                  int count);

}  // namespace geores::kernels
