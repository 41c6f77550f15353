// Causal attention as in attention.h, on GPUs with warpgroups: heads of 32 values, up to 256
// positions.
#pragma once

#include "geores/kernels/attention/attention.h"

namespace geores::kernels {

bool has_attention_warpgroups(const AttentionShape& shape);

void attention_warpgroups_forward(CudaStream stream, const BFloat16* qkv, BFloat16* out,
                                  float* log_sum, const AttentionShape& shape);
void attention_warpgroups_backward(CudaStream stream, const BFloat16* qkv, const BFloat16* out,
                                   const float* log_sum, const BFloat16* dout, BFloat16* dqkv,
                                   const AttentionShape& shape);

}  // namespace geores::kernels
