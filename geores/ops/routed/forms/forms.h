// The forms in which a token goes to its sublayer and back (routed.h): one file each, and one list
// of all of them, in the order in which they are tried.
#pragma once

#include <array>
#include <memory>

#include "geores/ops/dense/post_norm.h"
#include "geores/ops/inference/token_step.h"
#include "geores/ops/routed/spec.h"
#include "geores/ops/run/kernel_choice.h"

namespace geores {

// A form's results for a state: the sublayer's input, the routes, and the write.
//
// The gradient of out_i = Σ_j res_ij x_j + write_i y_i with respect to x is Σ_i res_ij dout_i. A form
// may share that work between its two operations: the backward pass of write() passes dout on
// unmixed, and that of the first operation mixes it in the pass that makes the gradients of res, read
// and x. Gradients of the carried state and of the routes are therefore correct only inside of a form,
// and read() and write() are the only ways from x to a loss.
class RoutedForm {
 public:
  virtual ~RoutedForm() = default;

  const Tensor& read() const { return read_; }      // (B, T, tiles · d)
  const Tensor& state() const { return state_; }    // x for the write: (B, T, n, d)
  const Routes& routes() const { return routes_; }  // with or without gradients

  // (B, T, n, d) for y (B, T, d), or (B, T, n, d) with one for each stream.
  virtual Tensor write(const Tensor& y) const = 0;
  virtual PostNormed write_normalized(const Tensor& y, const PostNorm& norm) const {
    return post_norm_of_tokens(write(y), norm);
  }

 protected:
  RoutedForm(Tensor read, Tensor state, Routes routes)
      : read_(std::move(read)), state_(std::move(state)), routes_(std::move(routes)) {}

  Tensor read_, state_;
  Routes routes_;
};

// A state to route: x (B, T, n·d), Norm(x) if the caller has it, and the read weights of the connection
// before if spec.reads_late.
struct RoutedInput {
  Tensor x, normalized, read{};

  const Tensor& read_of(const Routes& routes) const { return read.defined() ? read : routes.read; }
};

// Null where the form does not fit; its KernelChoice says why.
using MakeRoutedForm = std::unique_ptr<RoutedForm>(const RoutedInput& in, const RoutedSpec& spec);

MakeRoutedForm token_form;       // GPU: one kernel each way
MakeRoutedForm tanh_token_form;  // the same for hyper-connections whose streams route themselves
MakeRoutedForm passes_form;      // GPU: some passes over the state each way
MakeRoutedForm block_form;       // CPU: blocks of tokens that stay in the cache
MakeRoutedForm wide_form;        // GPU: routes of their own, then two kernels each way
MakeRoutedForm composed_form;    // everywhere: the definition

inline constexpr std::array<MakeRoutedForm*, 6> kRoutedForms = {
    token_form, tanh_token_form, passes_form, block_form, wide_form, composed_form};

// One token of each of `batch` sequences at a time, without gradients: float32 or float64 on a CPU. Null
// where no kernel makes such routes of so many streams.
std::unique_ptr<TokenStep> step_form(const RoutedSpec& spec, int64_t batch);

// The routes of the last two forms (composed_form.cpp), and x for its other uses: (B, T, n, d).
struct RoutesAndStreams {
  Routes routes;
  Tensor streams;
};
RoutesAndStreams routes_of(const RoutedInput& in, const RoutedSpec& spec);

}  // namespace geores
