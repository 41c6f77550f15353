// Hyper-connections with wide residual streams on a GPU (kernels/routed/wide_streams.h,
// wide_projection.h), with the fewest passes over the state that separately computed routes allow.
// Each operation returns nullopt where no kernel fits; the connection then runs composed.
#pragma once

#include <optional>
#include <vector>

#include "geores/ops/dense/normalized_linear.h"
#include "geores/ops/dense/post_norm.h"
#include "geores/ops/dense/projections.h"
#include "geores/ops/routed/route_maps.h"
#include "geores/ops/routed/routes.h"
#include "geores/ops/torch.h"

namespace geores {

// All projections of x / rms(x), concatenated: x (..., width) -> projected (..., Σ bias.numel()),
// and x itself for its other uses; their gradients are added in the same pass. No normalized copy
// of x is stored, and products have the precision of the state's type in every mode.
struct WideProjected {
  Tensor projected, skip;
};
std::optional<WideProjected> wide_projected(const Tensor& x, double epsilon,
                                            const std::vector<ProjectionWeights>& projections);

// The same with sigmoid_routes() (route_maps.h) of the result, n > 0.
struct WideSigmoidRoutes {
  SigmoidRoutes routes;
  Tensor skip;
};
std::optional<WideSigmoidRoutes> wide_sigmoid_routes(
    const Tensor& x, double epsilon, const std::vector<ProjectionWeights>& projections, int64_t n,
    double offset);

// The same for x itself.
std::optional<WideProjected> wide_linear(const Tensor& x,
                                         const std::vector<ProjectionWeights>& projections);

// Whether n streams of d values have kernels for a bfloat16 state in the form of this thread.
bool takes_half_streams(int64_t n, int64_t d);

// The norm of the sublayer's input.
struct ReadNormSpec {
  enum class Kind { layer, rms, none } kind = Kind::layer;
  Tensor weight{};  // undefined: 1
  double epsilon = 1e-5;
};

// Routing around a sublayer from the routes of each token:
//     if (const auto wide = WideStreams::make(routes, x, norm)) return
//   wide->write(f(wide->read()));
//
// The backward pass of write() passes the gradient of its result on unmixed, and the backward pass
// of make() mixes it while it computes the gradients of res, read and x. The gradients of the
// carried state and of res are therefore correct only inside of this class; both are private.
// read() and write() may be called any number of times.
class WideStreams {
 public:
  // res (B, T, n, n), read and write (B, T, n), x (B, T, n, d).
  static std::optional<WideStreams> make(const Routes& routes, const Tensor& x,
                                         const ReadNormSpec& norm);

  const Tensor& read() const { return read_; }  // Norm(Σ_j read_j x_j): (B, T, d)

  Tensor write(const Tensor& y) const;  // Σ_j res_ij x_j + write_i y (B, T, n, d): y (B, T, d)

  // The same, and RMSNorm over all n·d values of a token; no product.
  PostNormed write_normalized(const Tensor& y, const PostNorm& norm) const;

 private:
  WideStreams(Tensor read, Tensor carried, Tensor res, Tensor write);
  Tensor branch(const Tensor& y) const;  // y in a type that the kernels support

  Tensor read_, carried_, res_, write_;
};

// Normalizes all streams of a token together: (B, T, n, d) -> (B, T, n·d).
PostNormed joined(const PostNormed& streams);

}  // namespace geores
