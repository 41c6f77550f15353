#include "geores/ops/pooled/summary.h"

#include "geores/kernels/pooled/summary.h"
#include "geores/kernels/pooled/token_summary.h"
#include "geores/ops/run/dispatch.h"
#include "geores/ops/streams/stream_kernels.h"

namespace geores::fused {
namespace {

// The number of tokens whose running means token_summary kernels compute; 0: no running means.
int64_t running_length(const Tensor& x, Pool pool) { return pool == Pool::causal ? x.size(1) : 0; }

// Buffers for means and entropies.
Summary buffers(const Tensor& input, const Tensor& branch, Pool pool, bool entropy) {
  const auto batch = input.size(0), parts = int64_t{kernels::kSummaryParts};
  Summary s{.x = branch.defined() ? torch::empty_like(input) : input, .means = {}, .entropies = {}};
  if (pool == Pool::sequence) {
    s.means = torch::empty({batch, parts, input.size(2)}, input.options());
    if (entropy) s.entropies = torch::empty({batch, parts}, input.options());
    return s;
  }
  const bool as_it_is =
      pool == Pool::token && product_type(input.scalar_type()) == input.scalar_type();
  if (!as_it_is) s.means = for_product_of(input, input.sizes());
  if (entropy) s.entropies = torch::empty({batch * input.size(1)}, input.options());
  return s;
}

}  // namespace

Summary summarize(const Tensor& input, const Tensor& branch, int64_t n, Pool pool, bool entropy) {
  const auto s = buffers(input, branch, pool, entropy);
  const auto shape = split_shape(input, n);
  if (pool == Pool::sequence)
    on_gpu(input, branch, [&]<class T, class A>(T, A, kernels::CudaStream cuda_stream) {
      kernels::summary_forward(cuda_stream, values<T>(input), values<A>(branch), values<T>(s.x),
                               values<T>(s.means), values<T>(s.entropies), input.size(0), shape);
    });
  else if (branch.defined() || s.means.defined() || entropy)
    on_gpu(input, s.means.defined() ? s.means : input,
           [&]<class T, class A>(T, A, kernels::CudaStream cuda_stream) {
             kernels::token_summary_forward(
                 cuda_stream, values<T>(input), values<A>(branch), values<T>(s.x),
                 values<A>(s.means), values<T>(s.entropies), running_length(input, pool), shape);
           });
  return s;
}

std::pair<Tensor, Tensor> summarize_backward(const Tensor& x, torch::ScalarType branch, int64_t n,
                                             Pool pool, const Tensor& dmeans,
                                             const Tensor& dentropies, const Tensor& skip) {
  const auto dx = torch::empty_like(x);
  const auto dbranch =
      branch == torch::ScalarType::Undefined ? Tensor() : torch::empty_like(x, branch);
  const auto shape = split_shape(x, n);
  on_gpu(x, dbranch, [&]<class T, class A>(T, A, kernels::CudaStream cuda_stream) {
    if (pool == Pool::sequence)
      kernels::summary_backward(cuda_stream, values<T>(x), values<T>(dmeans), values<T>(dentropies),
                                values<T>(skip), values<T>(dx), values<A>(dbranch), x.size(0),
                                shape);
    else
      kernels::token_summary_backward(cuda_stream, values<T>(x), values<T>(dmeans),
                                      values<T>(dentropies), values<T>(skip), values<T>(dx),
                                      values<A>(dbranch), running_length(x, pool), shape);
  });
  return {dx, dbranch};
}

}  // namespace geores::fused
