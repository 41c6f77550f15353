#include "geores/ops/routed/forms/carried_form.h"

#include "geores/kernels/routed/routed_passes.h"
#include "geores/ops/run/dispatch.h"
#include "geores/ops/run/saved_state.h"
#include "geores/ops/streams/stream_kernels.h"
#include "geores/ops/streams/streams.h"

namespace geores {
namespace {

using namespace fused;

// Returns the unmixed gradient of x: only for x as the first operation of a form carries it.
class FusedWriteRouted : public torch::autograd::Function<FusedWriteRouted> {
  struct Kept {
    Tensor write, branch;

    template <class Self, class F>
    static void tensors(Self& s, F&& f) {
      f(s.write), f(s.branch);
    }
  };

 public:
  static Tensor forward(AutogradContext* context, const Tensor& res, const Tensor& input,
                        const Tensor& write, const Tensor& branches) {
    const auto x = input.contiguous(), branch = branches.contiguous();
    auto out = torch::empty_like(x);
    on(x, branch, [&]<class T, class A>(T, A, auto... cuda_stream) {
      kernels::mix_write_forward(cuda_stream..., values<T>(res), values<T>(x), values<T>(write),
                                 values<A>(branch), branch_kind(branch), values<T>(out),
                                 stream_shape(x));
    });
    save(context, Kept{.write = write, .branch = branch});
    return out;
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto s = saved<Kept>(context);
    const auto dout = gradients[0].contiguous();
    const auto dwrite = torch::empty_like(s.write), dbranch = torch::empty_like(s.branch);
    on(dout, s.branch, [&]<class T, class A>(T, A, auto... cuda_stream) {
      kernels::write_backward(cuda_stream..., static_cast<const T*>(values<T>(s.write)),
                              static_cast<const A*>(values<A>(s.branch)), branch_kind(s.branch),
                              static_cast<const T*>(values<T>(dout)), values<T>(dwrite),
                              values<A>(dbranch), stream_shape(dout));
    });
    return {Tensor(), dout, dwrite, dbranch};
  }
};

}  // namespace

std::unique_ptr<RoutedForm> CarriedForm::of(const std::vector<Tensor>& outputs) {
  const auto& read = outputs[3];
  return std::unique_ptr<RoutedForm>(
      new CarriedForm(outputs[0], split_streams(outputs[1], read.size(2)),
                      {.res = outputs[2], .read = read, .write = outputs[4]}));
}

Tensor CarriedForm::write(const Tensor& y) const {
  return FusedWriteRouted::apply(routes_.res, state_, routes_.write, y);
}

}  // namespace geores
