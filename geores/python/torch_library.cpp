// The fused operations as torch.ops.geores.*, with gradients, for Python and TorchScript:
//   torch.ops.load_library("build/release/geores/python/libgeores_torch.so")
//   y = torch.ops.geores.causal_attention(qkv, heads)
// A shared library of its own: in a static one nothing would refer to this file, and the linker
// would leave it out. See docs/guides/python.md.
#include <torch/library.h>

#include "geores/ops/attention/attention.h"
#include "geores/ops/dense/linear.h"
#include "geores/ops/dense/norm.h"
#include "geores/ops/mixers/hybrid.h"
#include "geores/ops/mixers/sinkhorn.h"
#include "geores/ops/routed/routes.h"
#include "geores/ops/streams/pool.h"
#include "geores/ops/streams/streams.h"

namespace geores {
namespace {

using OptionalTensor = c10::optional<Tensor>;

Tensor or_undefined(const OptionalTensor& tensor) { return tensor.value_or(Tensor()); }

TORCH_LIBRARY(geores, library) {
  library.def("linear_map(Tensor x, Tensor weight, Tensor? bias=None) -> Tensor",
              [](const Tensor& x, const Tensor& weight, const OptionalTensor& bias) {
                return linear_map(x, weight, or_undefined(bias));
              });
  library.def("perceptron(Tensor x, Tensor up, Tensor down) -> Tensor", &perceptron);
  library.def("gelu(Tensor x) -> Tensor", &exact_gelu);
  library.def("causal_attention(Tensor qkv, int heads) -> Tensor", &causal_attention);
  library.def("layer_norm(Tensor x, Tensor weight, Tensor? bias=None) -> Tensor",
              [](const Tensor& x, const Tensor& weight, const OptionalTensor& bias) {
                return layer_norm(x, weight, or_undefined(bias));
              });
  library.def("rms_normalize(Tensor x, float eps=1e-6) -> Tensor", &rms_normalize);
  library.def("running_mean(Tensor x) -> Tensor",
              [](const Tensor& x) { return pooled(x, Pool::causal); });
  library.def("sinkhorn(Tensor logits, int iterations=20) -> Tensor",
              [](const Tensor& logits, int64_t iterations) {
                return sinkhorn(logits, {.iterations = iterations});
              });
  library.def("guarded_sinkhorn(Tensor logits, int iterations=20) -> Tensor", &guarded_sinkhorn);
  library.def("hybrid_operator(Tensor u, Tensor v, Tensor k, Tensor beta, Tensor gamma) -> Tensor",
              [](const Tensor& u, const Tensor& v, const Tensor& k, const Tensor& beta,
                 const Tensor& gamma) {
                return hybrid_operator({.u = u, .v = v, .k = k, .beta = beta, .gamma = gamma});
              });
  library.def("mix_and_norm(Tensor m, Tensor x, Tensor weight) -> (Tensor, Tensor)",
              [](const Tensor& m, const Tensor& x, const Tensor& weight) {
                const auto [normalized, mixed] = mix_and_norm(m, x, weight);
                return std::make_tuple(mixed, normalized);
              });
  library.def("collect_and_norm(Tensor read, Tensor x, Tensor weight, int tiles=1) -> Tensor",
              [](const Tensor& read, const Tensor& x, const Tensor& weight, int64_t tiles) {
                return collect_and_norm(read, x, weight, tiles).normalized;
              });
  library.def("mix_and_write(Tensor res, Tensor x, Tensor write, Tensor y) -> Tensor",
              &mix_and_write);
  library.def("stream_entropy(Tensor streams) -> Tensor", &stream_entropy);
  library.def(
      "cayley_routes(Tensor raw, int n, float temperature=1.0, float alpha=0.1, int iterations=2, "
      "bool exact=False) -> (Tensor, Tensor, Tensor)",
      [](const Tensor& raw, int64_t n, double temperature, double alpha, int64_t iterations,
         bool exact) {
        const auto routes = cayley_routes(
            raw, n,
            {.temperature = temperature, .alpha = alpha, .iterations = iterations, .exact = exact});
        return std::make_tuple(routes.res, routes.read, routes.write);
      });
}

}  // namespace
}  // namespace geores
