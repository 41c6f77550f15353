// Shared by operations on residual streams: the shapes that kernels take, and the kernels'
// requirements, each with its text (KernelChoice).
#pragma once

#include <string>

#include "geores/kernels/streams/streams.h"
#include "geores/ops/run/kernel_choice.h"
#include "geores/ops/torch.h"

namespace geores::fused {

kernels::StreamShape stream_shape(const Tensor& x);            // x (B, T, n, d)
kernels::StreamShape split_shape(const Tensor& x, int64_t n);  // x (B, T, n·d)

// Of a branch (B, T, d) for all streams, or (B, T, n, d) with one for each.
kernels::Branch branch_kind(const Tensor& branch);

// n streams of d values each.
KernelChoice& need_streams(KernelChoice& choice, int64_t n, int64_t d);

// The same for operations that also have kernels for wide streams, where norms have no bias.
KernelChoice& need_any_streams(KernelChoice& choice, int64_t n, int64_t d, bool with_bias = false);

// n × n matrices that mix streams.
KernelChoice& need_mixer(KernelChoice& choice, int64_t n);

// "2, 3 or 4": the numbers that `holds` accepts, for the text of a requirement.
std::string numbers_that(bool (*holds)(int64_t));

}  // namespace geores::fused
