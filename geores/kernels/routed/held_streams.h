// Reading from wide streams and the projections that make the routes as one pass over the state each way:
// blocks hold their tokens while sums over the columns become routes, or gradients of `read`, and go on with
// them. Backward, against wide_read_backward and wide_projection_backward one after the other, the state passes
// through memory three times and a quarter, not six times and a half.
//
// A block cannot hold the weights of all columns beside its tokens. So the columns of a token are divided
// among the blocks of a cluster, each of which keeps its weights for all tokens, and only the sums of each
// token go from block to block.
//
// State in bfloat16; routes by sigmoids (SigmoidParts), whose projections are of normalized tokens.
#pragma once

#include "geores/kernels/routed/wide_streams.h"

namespace geores::kernels {

// Whether n streams of d values with `count` projections have kernels: both, or that of the forward pass.
bool fits_held_streams(int64_t n, int64_t d, int64_t count);
bool fits_held_read(int64_t n, int64_t d, int64_t count);

// Projections, routes and what the sublayer reads: wide_projection_forward and wide_read_forward in one pass
// over the state.
struct HeldReadForward {
  const BFloat16* x;
  const float *w, *bias;
  float eps, offset;  // of the norm before the projections; read = σ(...) + offset
  ReadNorm<float> norm;
  float *plain, *inverse, *read, *write, *others;
  BFloat16* h;
  RowStatistics<float>* statistics;  // not touched without a norm
};
void held_read_forward(CudaStream stream, const HeldReadForward& p, int64_t count,
                       const StreamShape& shape);

struct HeldReadBackward {
  const BFloat16 *x, *dout, *dh;  // (tokens, n, d), (tokens, n, d), (tokens, d)
  const float *res, *read;        // (tokens, n, n), (tokens, n)
  float offset;                   // read = σ(...) + offset
  ReadNorm<float> norm;
  const RowStatistics<float>* statistics;
  const float *w, *plain, *inverse;  // (count, n d), (tokens, count), (tokens): wide_projection.h
  const float* factors;              // (tokens, count + 1), of all routes but read, which has zeros
  BFloat16* dx;                      // overwritten
  float *dw, *dbias, *dweight;       // added to; dweight, of the norm, may be null
};
void held_read_backward(CudaStream stream, const HeldReadBackward& p, int64_t count,
                        const StreamShape& shape);

}  // namespace geores::kernels
