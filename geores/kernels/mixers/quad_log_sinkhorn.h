// Sinkhorn-Knopp in log space (mixers.h) on 4 × 4 matrices with four lanes for each token, on a GPU.
#pragma once

#include "geores/kernels/mixers/mixers.h"

namespace geores::kernels {

template <class T>
void quad_log_sinkhorn_forward(CudaStream stream, const T* logits, const LogSinkhorn<T>& spec, T* p,
                               int64_t tokens);

}  // namespace geores::kernels
