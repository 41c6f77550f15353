#include "geores/ops/routed/forms/gpu_routes.h"

#include <string>

#include "geores/ops/dense/projections.h"
#include "geores/ops/run/on_gpu.h"
#include "geores/ops/streams/stream_kernels.h"

namespace geores::fused {

KernelChoice& need_routes_on_gpu(KernelChoice& choice, const RoutedInput& in,
                                 const RoutedSpec& spec) {
  static const auto row = "rows of at most " + std::to_string(kernels::kDeviceRow) + " values",
                    iterations = "at most " + std::to_string(kernels::kMostGuardedIterations) +
                                 " Sinkhorn iterations";
  const auto& x = in.x;
  choice.need(on_gpu(x), "a GPU").need(x.numel() > 0, "at least one value");
  const auto* cayley = std::get_if<CayleyRouting>(&spec.routing);
  const auto* guarded = std::get_if<GuardedRouting>(&spec.routing);
  const auto* sinkhorn = std::get_if<SinkhornRouting>(&spec.routing);
  const auto* sphere = std::get_if<SphereRouting>(&spec.routing);
  const bool unrolled =
      sinkhorn != nullptr && sinkhorn->spec.gradient == SinkhornGradient::unrolled;
  choice.need(has_kernel(spec.routing), "a mixer that kernels make")
      .need(spec.read_norm.kind == ReadNormSpec::Kind::layer, "LayerNorm before the sublayer")
      .need(spec.read_offset == 0, "no offset in the read route")
      .need(!in.normalized.defined(), "a state without its norm");
  return need_streams(choice, spec.streams, spec.width)
      .need(x.size(2) <= kernels::kDeviceRow, row.c_str())
      .need(!spec.projections.empty() && PackedProjections::fit(spec.projections),
            "few projections with bias, contiguous")
      .need(cayley == nullptr || !cayley->exact, "the iterated Cayley map")
      .need(guarded == nullptr || guarded->iterations <= kernels::kMostGuardedIterations,
            iterations.c_str())
      .need(!unrolled || sinkhorn->spec.iterations <= kernels::kMostGuardedIterations,
            iterations.c_str())
      .need(sphere == nullptr || !sphere->left_amplitude.defined(), "fixed amplitudes")
      .need(sinkhorn == nullptr || sinkhorn->spec.gradient != SinkhornGradient::gauss_seidel,
            "the implicit gradient or the unrolled one")
      .need(sinkhorn == nullptr || sinkhorn->spec.order == SinkhornOrder::rows_last,
            "rows that are normalised last");
}

}  // namespace geores::fused
