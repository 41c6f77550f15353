#include "geores/ops/training/step_tables.h"

#include "geores/kernels/training/step_tables.h"
#include "geores/ops/run/dispatch.h"
#include "geores/ops/training/sequences.h"

namespace geores {

using fused::on_gpu;
using fused::values;

Tensor row_of_step(const Tensor& step, int64_t window) { return step.remainder(window); }

StepInput step_input(const StepTables& tables, const Tensor& x, const Tensor& y) {
  const torch::NoGradGuard no_grad;
  const auto fits = [&](const Tensor& t) {
    return t.scalar_type() == x.scalar_type() && t.is_contiguous() && t.numel() > 0;
  };
  if (!runs_cuda_kernel(x) || !fits(x) || !fits(y) || !fits(tables.rates)) {  // token ids, for one
    const auto row = row_of_step(tables.step, tables.batches.size(0));
    const auto rows = tables.batches.index_select(0, row).view(-1);
    return {sequences_at(x, rows), sequences_at(y, rows),
            tables.rates.index_select(0, tables.step).view(-1)};
  }
  const auto sequences = tables.batches.size(1);
  const auto buffer = [&](const Tensor& all, torch::ScalarType type) {
    auto shape = all.sizes().vec();
    shape[0] = sequences;
    return torch::empty(shape, all.options().dtype(type));
  };
  const StepInput taken{buffer(x, product_type(x.scalar_type())), buffer(y, y.scalar_type()),
                        torch::empty({tables.rates.size(1)}, tables.rates.options())};
  on_gpu(x, taken.x, [&]<class T, class A>(T, A, kernels::CudaStream stream) {
    kernels::take_step<T, A>(
        stream,
        {.step = values<int64_t>(tables.step),
         .table = values<int64_t>(tables.batches),
         .window = tables.batches.size(0),
         .sequences = sequences},
        {.all = values<T>(x), .size = x.numel() / x.size(0), .taken = values<A>(taken.x)},
        {.all = values<T>(y), .size = y.numel() / y.size(0), .taken = values<T>(taken.y)},
        {.table = values<T>(tables.rates),
         .size = tables.rates.size(1),
         .taken = values<T>(taken.rates)});
  });
  return taken;
}

void end_step(const StepTables& tables, const Tensor& loss, const Tensor& norm) {
  const torch::NoGradGuard no_grad;
  const auto type = tables.losses.scalar_type();
  if (!runs_cuda_kernel(tables.losses) || loss.scalar_type() != type ||
      norm.scalar_type() != type) {
    tables.losses.index_copy_(0, tables.step, loss.to(type).view({1}));
    tables.norms.index_copy_(0, tables.step, norm.to(type).view({1}));
    tables.step.add_(1);
    return;
  }
  on_gpu(loss, [&]<class T>(T, kernels::CudaStream stream) {
    kernels::end_step<T>(stream, values<int64_t>(tables.step), values<T>(loss),
                         values<T>(tables.losses), values<T>(norm), values<T>(tables.norms));
  });
}

}  // namespace geores
