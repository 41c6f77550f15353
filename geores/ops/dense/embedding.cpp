#include "geores/ops/dense/embedding.h"

#include "geores/kernels/dense/embedding.h"
#include "geores/kernels/dense/projections.h"
#include "geores/ops/dense/projections.h"
#include "geores/ops/gradients/step_parameters.h"
#include "geores/ops/run/dispatch.h"
#include "geores/ops/run/kernel_choice.h"
#include "geores/ops/run/saved_state.h"

namespace geores {
namespace {

using namespace fused;

class FusedEmbedding : public torch::autograd::Function<FusedEmbedding> {
  struct Kept {
    Tensor table, ids, rows;
    Tensor table_slot, rows_slot;

    template <class Self, class F>
    static void tensors(Self& s, F&& f) {
      f(s.table), f(s.ids), f(s.rows);
    }
  };

  static kernels::EmbeddingShape shape(const Tensor& table, const Tensor& ids) {
    return {
        .tokens = ids.numel(), .length = ids.size(1), .width = table.size(1), .ids = table.size(0)};
  }

 public:
  static Tensor forward(AutogradContext* context, const Tensor& tables, const Tensor& all_ids,
                        const Tensor& all_rows) {
    const auto table = tables.contiguous(), ids = all_ids.contiguous(),
               rows = all_rows.contiguous();
    save(context, Kept{.table = table,
                       .ids = ids,
                       .rows = rows,
                       .table_slot = gradient_slot(table),
                       .rows_slot = gradient_slot(rows)});
    const auto out = torch::empty({ids.size(0), ids.size(1), table.size(1)}, table.options());
    on_gpu(table, [&]<class T>(T, kernels::CudaStream stream) {
      kernels::embed(stream, values<T>(table), values<int64_t>(ids), values<T>(rows),
                     values<T>(out), shape(table, ids));
    });
    return out;
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto s = saved<Kept>(context);
    const auto dtable = parameter_sum(s.table, s.table_slot),
               drows = parameter_sum(s.rows, s.rows_slot);
    const auto d = gradients[0].contiguous();
    on_gpu(d, [&]<class T>(T, kernels::CudaStream stream) {
      kernels::add_to_table(stream, values<int64_t>(s.ids), values<T>(d), values<T>(dtable.sum),
                            shape(s.table, s.ids));
      kernels::sum_rows<T, T>(stream, values<T>(d), nullptr, values<T>(drows.sum), nullptr,
                              d.size(0), s.rows.numel(), s.rows.size(1));
    });
    return {dtable.gradient, Tensor(), drows.gradient};
  }
};

}  // namespace

Tensor embedded(const Tensor& table, const Tensor& ids, const Tensor& rows) {
  if (KernelChoice("embedding", table)
          .need(on_gpu(table) && on_gpu(ids), "a GPU")
          .need(ids.dim() == 2 && table.dim() == 2 && rows.dim() == 2, "sequences of ids")
          .need(ids.numel() > 0, "at least one id")
          .runs())
    return FusedEmbedding::apply(table, ids, rows);
  return add_to_each(torch::embedding(table, ids), rows);
}

}  // namespace geores
