#include "geores/ops/routed/routed.h"

#include <utility>

#include "geores/base/error.h"
#include "geores/ops/routed/forms/forms.h"
#include "geores/ops/routed/forms/wide_form.h"
#include "geores/ops/run/precision.h"
#include "geores/ops/streams/streams.h"

namespace geores {
namespace {

// The write of a form that has not run yet.
class WaitingForm final : public WaitingWrite {
 public:
  explicit WaitingForm(const Routed& routed) : routed_(routed) {}
  Tensor total(const Tensor& branch) const override { return routed_.write(branch); }

 private:
  Routed routed_;
};

// The weights with which the first connection of a stack reads.
Tensor of_the_first_stream(const Tensor& x, int64_t streams) {
  auto read = torch::zeros({x.size(0), x.size(1), streams}, full_options(x));
  read.select(-1, 0).fill_(1);
  return read;
}

}  // namespace

Routed::Routed(std::shared_ptr<const RoutedForm> form, bool joined, const RoutedSpec& spec)
    : form_(std::move(form)), joined_(joined), tiles_(spec.tiles), reads_late_(spec.reads_late) {}

Routed Routed::make(const State& state, const RoutedSpec& spec, const Tensor& normalized) {
  const auto x = state.total();
  const bool joined = x.dim() == 3;
  RoutedInput in{joined ? x : join_streams(x), normalized};
  if (spec.reads_late)
    in.read = state.read.defined() ? state.read : of_the_first_stream(x, spec.streams);
  require(in.x.dim() == 3 && in.x.size(-1) == spec.streams * spec.width, "routed",
          "expected {} streams of {} values, got {} values", spec.streams, spec.width,
          in.x.size(-1));
  for (const auto& make_form : kRoutedForms)
    if (auto form = make_form(in, spec)) return {std::move(form), joined, spec};
  fail("routed", "no form");  // composed_form takes everything
}

const Tensor& Routed::read() const { return form_->read(); }

Tensor Routed::branch(const Tensor& y) const {
  return tiles_ == 1 ? y : split_streams(y, form_->state().size(2));
}

Tensor Routed::write(const Tensor& y) const {
  const auto out = form_->write(branch(y));
  return joined_ ? join_streams(out) : out;
}

State Routed::leave(const Tensor& y) const {
  // Without gradients the old state would live longer than it has to.
  const auto next_read = reads_late_ ? form_->routes().read : Tensor();
  if (!torch::GradMode::is_enabled()) return {write(y), {}, nullptr, next_read};
  const auto& x = form_->state();
  return {joined_ ? join_streams(x) : x, y, std::make_shared<WaitingForm>(*this), next_read};
}

PostNormed Routed::write_normalized(const Tensor& y, const PostNorm& norm) const {
  auto of_streams = norm;
  if (norm.added.defined()) of_streams.added = norm.added.reshape(form_->state().sizes());
  const auto made = form_->write_normalized(branch(y), of_streams);
  return joined_ ? geores::joined(made) : made;
}

Routes Routed::routes() const {
  const auto& [res, read, write] = form_->routes();
  return {.res = res.detach(), .read = read.detach(), .write = write.detach()};
}

bool Routed::supports_bf16_state(const RoutedSpec& spec) {
  return spec.tiles == 1 && WideForm::takes_half(spec.streams, spec.width);
}

std::unique_ptr<TokenStep> Routed::step(const RoutedSpec& spec, int64_t batch) {
  return step_form(spec, batch);
}

}  // namespace geores
