// torch.ops.geores: connections, and operations on streams (docs/reference/python_api.md). Python loads
// this library with torch.ops.load_library, which needs no Python at compile time: one build serves
// every version of Python.
#include <torch/library.h>

#include <string>
#include <tuple>
#include <vector>

#include "geores/kernels/device.h"
#include "geores/ops/attention/attention.h"
#include "geores/ops/dense/linear.h"
#include "geores/ops/dense/norm.h"
#include "geores/ops/mixers/cayley.h"
#include "geores/ops/mixers/hybrid.h"
#include "geores/ops/mixers/sinkhorn.h"
#include "geores/ops/routed/routes.h"
#include "geores/ops/streams/pool.h"
#include "geores/ops/streams/streams.h"
#include "geores/python/connections.h"
#include "geores/python/mhc.h"
#include "geores/python/operators.h"

namespace geores::python {
namespace {

using OptionalTensor = c10::optional<Tensor>;
using Pair = std::tuple<Tensor, Tensor>;
using Triple = std::tuple<Tensor, Tensor, Tensor>;
using Sizes = std::vector<c10::SymInt>;

Tensor or_undefined(const OptionalTensor& tensor) { return tensor.value_or(Tensor()); }

// The sizes of x without its last `axes`, then `more`.
Sizes leading(const Tensor& x, int64_t axes, const Sizes& more) {
  auto sizes = sizes_of(x);
  sizes.resize(sizes.size() - static_cast<size_t>(axes));
  sizes.insert(sizes.end(), more.begin(), more.end());
  return sizes;
}

c10::SymInt size_at(const Tensor& x, int64_t axis) {
  return x.sym_sizes()[static_cast<size_t>(axis < 0 ? x.dim() + axis : axis)];
}

Tensor of_mapping(const Tensor& x, int64_t axes) {  // (..., n) or (..., n, n) for x (..., n, C)
  const auto type = x.scalar_type() == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32;
  const auto n = size_at(x, -2);
  return x.new_empty_symint(leading(x, 2, Sizes(static_cast<size_t>(axes), n)),
                            x.options().dtype(type));
}

void add_dense(Operators& operators) {
  operators.add(
      "linear_map(Tensor x, Tensor weight, Tensor? bias=None) -> Tensor",
      [](const Tensor& x, const Tensor& weight, const OptionalTensor& bias) {
        return linear_map(x, weight, or_undefined(bias));
      },
      [](const Tensor& x, const Tensor& weight, const OptionalTensor&) {
        return empty_of(x, leading(x, 1, {size_at(weight, 0)}));
      });
  operators.add(
      "perceptron(Tensor x, Tensor up, Tensor down) -> Tensor",
      [](const Tensor& x, const Tensor& up, const Tensor& down) { return perceptron(x, up, down); },
      [](const Tensor& x, const Tensor&, const Tensor& down) {
        return empty_of(x, leading(x, 1, {size_at(down, 0)}));
      });
  operators.add(
      "gelu(Tensor x) -> Tensor", [](const Tensor& x) { return exact_gelu(x); }, &like);
  operators.add(
      "causal_attention(Tensor qkv, int heads) -> Tensor",
      [](const Tensor& qkv, int64_t heads) { return causal_attention(qkv, heads); },
      [](const Tensor& qkv, int64_t) {
        return empty_of(qkv, leading(qkv, 1, {size_at(qkv, -1) / 3}));
      });
  operators.add(
      "layer_norm(Tensor x, Tensor weight, Tensor? bias=None) -> Tensor",
      [](const Tensor& x, const Tensor& weight, const OptionalTensor& bias) {
        return layer_norm(x, weight, or_undefined(bias));
      },
      [](const Tensor& x, const Tensor&, const OptionalTensor&) { return like(x); });
  operators.add(
      "rms_normalize(Tensor x, float eps=1e-6) -> Tensor",
      [](const Tensor& x, double eps) { return rms_normalize(x, eps); },
      [](const Tensor& x, double) { return like(x); });
  operators.add(
      "running_mean(Tensor x) -> Tensor", [](const Tensor& x) { return pooled(x, Pool::causal); },
      &like);
}

void add_mixers(Operators& operators) {
  operators.add(
      "sinkhorn(Tensor logits, int iterations=20, str gradient='implicit', str "
      "order='columns_last', "
      "float logit_bound=10) -> Tensor",
      [](const Tensor& logits, int64_t iterations, std::string gradient, std::string order,
         double logit_bound) {
        return sinkhorn(logits, {.iterations = iterations,
                                 .gradient = sinkhorn_gradient_from(gradient),
                                 .order = sinkhorn_order_from(order),
                                 .logit_bound = logit_bound});
      },
      [](const Tensor& logits, int64_t, std::string, std::string, double) { return like(logits); });
  operators.add(
      "guarded_sinkhorn(Tensor logits, int iterations=20) -> Tensor",
      [](const Tensor& logits, int64_t iterations) { return guarded_sinkhorn(logits, iterations); },
      [](const Tensor& logits, int64_t) { return like(logits); });
  operators.add(
      "cayley(Tensor m) -> Tensor", [](const Tensor& m) { return cayley_solve(m); }, &like);
  operators.add(
      "cayley_rotation(Tensor u, Tensor v, Tensor beta) -> Tensor",
      [](const Tensor& u, const Tensor& v, const Tensor& beta) {
        return cayley_rotation(u, v, beta);
      },
      [](const Tensor& u, const Tensor&, const Tensor&) {
        return empty_of(u, leading(u, 0, {size_at(u, -1)}));
      });
  operators.add(
      "householder(Tensor k) -> Tensor", [](const Tensor& k) { return householder(k); },
      [](const Tensor& k) { return empty_of(k, leading(k, 0, {size_at(k, -1)})); });
  operators.add(
      "hybrid_operator(Tensor u, Tensor v, Tensor k, Tensor beta, Tensor gamma) -> Tensor",
      [](const Tensor& u, const Tensor& v, const Tensor& k, const Tensor& beta,
         const Tensor& gamma) {
        return hybrid_operator({.u = u, .v = v, .k = k, .beta = beta, .gamma = gamma});
      },
      [](const Tensor& u, const Tensor&, const Tensor&, const Tensor&, const Tensor&) {
        return empty_of(u, leading(u, 0, {size_at(u, -1)}));
      });
  operators.add(
      "cayley_routes(Tensor raw, int n, float temperature=1.0, float alpha=0.1, int iterations=2, "
      "bool exact=False) -> (Tensor, Tensor, Tensor)",
      [](const Tensor& raw, int64_t n, double temperature, double alpha, int64_t iterations,
         bool exact) -> Triple {
        const auto routes = cayley_routes(
            raw, n,
            {.temperature = temperature, .alpha = alpha, .iterations = iterations, .exact = exact});
        return {routes.res, routes.read, routes.write};
      },
      [](const Tensor& raw, int64_t n, double, double, int64_t, bool) -> Triple {
        return {empty_of(raw, leading(raw, 1, {n, n})), empty_of(raw, leading(raw, 1, {n})),
                empty_of(raw, leading(raw, 1, {n}))};
      });
}

void add_streams(Operators& operators) {
  operators.add(
      "mix_and_norm(Tensor m, Tensor x, Tensor weight) -> (Tensor, Tensor)",
      [](const Tensor& m, const Tensor& x, const Tensor& weight) -> Pair {
        const auto [normalized, mixed] = mix_and_norm(m, x, weight);
        return {mixed, normalized};
      },
      [](const Tensor&, const Tensor& x, const Tensor&) -> Pair {
        return {like(x), like(x)};
      });
  operators.add(
      "collect_and_norm(Tensor read, Tensor x, Tensor weight, int tiles=1) -> Tensor",
      [](const Tensor& read, const Tensor& x, const Tensor& weight, int64_t tiles) {
        return collect_and_norm(read, x, weight, tiles).normalized;
      },
      [](const Tensor&, const Tensor& x, const Tensor&, int64_t tiles) {
        return empty_of(x, leading(x, 2, {size_at(x, -1) * tiles}));
      });
  operators.add(
      "mix_and_write(Tensor res, Tensor x, Tensor write, Tensor y) -> Tensor",
      [](const Tensor& res, const Tensor& x, const Tensor& write, const Tensor& y) {
        return mix_and_write(res, x, write, y);
      },
      [](const Tensor&, const Tensor& x, const Tensor&, const Tensor&) { return like(x); });
  operators.add(
      "stream_entropy(Tensor streams) -> Tensor",
      [](const Tensor& streams) { return stream_entropy(streams); },
      [](const Tensor& streams) { return empty_of(streams, leading(streams, 2, {1})); });
}

using Mapping = std::tuple<Tensor, Tensor, Tensor>;
using Site = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor>;

void add_mhc(Operators& operators) {
  operators.add(
      "mhc_mapping(Tensor x, Tensor fn, Tensor scale, Tensor base, int iterations=20, "
      "float norm_eps=1e-6, float eps=1e-6) -> (Tensor pre, Tensor post, Tensor comb)",
      [](const Tensor& x, const Tensor& fn, const Tensor& scale, const Tensor& base,
         int64_t iterations, double norm_eps, double eps) -> Mapping {
        const auto m = mhc_mapping(x, fn, scale, base, iterations, norm_eps, eps);
        return {m.pre, m.post, m.comb};
      },
      [](const Tensor& x, const Tensor& fn, const Tensor& scale, const Tensor& base, int64_t,
         double, double) -> Mapping {
        check_mapping(x, fn, scale, base);
        return {of_mapping(x, 1), of_mapping(x, 1), of_mapping(x, 2)};
      });
  operators.add(
      "mhc_read(Tensor x, Tensor pre) -> Tensor",
      [](const Tensor& x, const Tensor& pre) { return mhc_read(x, pre); },
      [](const Tensor& x, const Tensor& pre) {
        check_weights(x, "pre", pre, 1);
        return empty_of(x, leading(x, 2, {size_at(x, -1)}));
      });
  operators.add(
      "mhc_write(Tensor x, Tensor f, Tensor post, Tensor comb) -> Tensor",
      [](const Tensor& x, const Tensor& f, const Tensor& post, const Tensor& comb) {
        return mhc_write(x, f, post, comb);
      },
      [](const Tensor& x, const Tensor& f, const Tensor& post, const Tensor& comb) {
        check_weights(x, "post", post, 1);
        check_weights(x, "comb", comb, 2);
        check_branch(x, f);
        return like(x);
      });
  operators.add(
      "mhc_head(Tensor x, Tensor fn, Tensor scale, Tensor base, float norm_eps=1e-6, "
      "float eps=1e-6) -> Tensor",
      [](const Tensor& x, const Tensor& fn, const Tensor& scale, const Tensor& base,
         double norm_eps, double eps) { return mhc_head(x, fn, scale, base, norm_eps, eps); },
      [](const Tensor& x, const Tensor& fn, const Tensor& scale, const Tensor& base, double,
         double) {
        check_head(x, fn, scale, base);
        return empty_of(x, leading(x, 2, {size_at(x, -1)}));
      });
  operators.add(
      "mhc_site(Tensor x, Tensor f, Tensor pre, Tensor post, Tensor comb, Tensor fn, Tensor scale, "
      "Tensor base, int iterations=20, float norm_eps=1e-6, float eps=1e-6) -> (Tensor x, Tensor "
      "u, "
      "Tensor pre, Tensor post, Tensor comb)",
      [](const Tensor& x, const Tensor& f, const Tensor& pre, const Tensor& post,
         const Tensor& comb, const Tensor& fn, const Tensor& scale, const Tensor& base,
         int64_t iterations, double norm_eps, double eps) -> Site {
        const auto site =
            mhc_site(x, f, pre, post, comb, fn, scale, base, iterations, norm_eps, eps);
        return {site.x, site.u, site.mapping.pre, site.mapping.post, site.mapping.comb};
      },
      [](const Tensor& x, const Tensor& f, const Tensor& pre, const Tensor& post,
         const Tensor& comb, const Tensor& fn, const Tensor& scale, const Tensor& base, int64_t,
         double, double) -> Site {
        check_weights(x, "pre", pre, 1);
        check_weights(x, "post", post, 1);
        check_weights(x, "comb", comb, 2);
        check_branch(x, f);
        check_mapping(x, fn, scale, base);
        return {like(x), empty_of(x, leading(x, 2, {size_at(x, -1)})), of_mapping(x, 1),
                of_mapping(x, 1), of_mapping(x, 2)};
      });
}

void add_connections(torch::Library& library, Operators& operators) {
  operators.add(
      "residual_read(Tensor x, Tensor[] state, str connection) -> Tensor[]",
      [](const Tensor& x, at::TensorList state, std::string connection) {
        return read(x, state, connection);
      },
      [](const Tensor& x, at::TensorList state, std::string connection) {
        return read_shape(x, state, connection);
      },
      [](at::TensorList gradients, c10::List<bool> needed, const Tensor& x, at::TensorList state,
         std::string connection) {
        return read_backward(gradients, needed, x, state, connection);
      });
  operators.add(
      "residual_write(Tensor x, Tensor f, Tensor[] state, str connection) -> Tensor",
      [](const Tensor& x, const Tensor& f, at::TensorList state, std::string connection) {
        return write(x, f, state, connection);
      },
      [](const Tensor& x, const Tensor& f, at::TensorList state, std::string connection) {
        return write_shape(x, f, state, connection);
      },
      [](at::TensorList gradients, c10::List<bool> needed, const Tensor& x, const Tensor& f,
         at::TensorList state, std::string connection) {
        return write_backward(gradients, needed, x, f, state, connection);
      });
  library.def(
      "residual_probes(Tensor x, Tensor f, Tensor[] state, str connection) -> Dict(str, Tensor)",
      [](const Tensor& x, const Tensor& f, at::TensorList state, std::string connection) {
        return probes(x, f, state, connection);
      });
  library.def("manifold_step(Tensor[] state, Tensor[] gradients, str connection) -> Tensor[]",
              [](at::TensorList state, at::TensorList gradients, std::string connection) {
                return manifold_step(state, gradients, connection);
              });
  library.def("draw_state(str connection, int seed) -> Tensor[]",
              [](std::string connection, int64_t seed) { return draw_state(connection, seed); });
  library.def("describe(str connection) -> str",
              [](std::string connection) { return describe(connection); });
  library.def("connections() -> str", [] { return list_connections(); });
  library.def("has_cuda_kernels() -> bool", [] { return kernels::kHasCuda; });
}

TORCH_LIBRARY(geores, library) {
  Operators operators(library);
  add_dense(operators);
  add_mixers(operators);
  add_streams(operators);
  add_mhc(operators);
  add_connections(library, operators);
}

}  // namespace
}  // namespace geores::python
