// EΔ one token at a time: the running mean, the generators, G, G x and its norm. All buffers are
// allocated once. For the hybrid operator with pool = causal or token.
#include "geores/ops/inference/into.h"
#include "geores/residual/edelta/edelta.h"

namespace geores {
namespace {

struct EdeltaWeights {
  Tensor hidden, hidden_bias;  // of all four perceptrons, concatenated
  Tensor output, output_bias;  // block-diagonal
  Tensor gate, gate_bias, norm;
};

class EdeltaStep final : public TokenStep {
 public:
  EdeltaStep(EdeltaWeights weights, int64_t batch, int64_t streams, bool running, bool entropy)
      : w_(std::move(weights)), streams_(streams), running_(running), entropy_gate_(entropy) {
    const auto options = w_.norm.options();
    const auto width = w_.norm.numel();
    const auto buffer = [&](at::IntArrayRef shape) { return torch::zeros(shape, options); };
    sum_ = buffer({batch, width});
    mean_ = buffer({batch, width});
    hidden_ = buffer({batch, w_.hidden.size(0)});
    raw_ = buffer({batch, w_.output.size(0)});
    logit_ = buffer({batch, 1});
    entropy_ = buffer({batch, 1});
    entropy_sum_ = buffer({batch, 1});
    entropy_mean_ = buffer({batch, 1});
    operator_ = buffer({batch, streams, streams});
    mixed_ = buffer({batch, width});
    normalized_ = buffer({batch, width});
  }

  const Tensor& read(const Tensor& x) override {
    ++seen_;
    if (running_) into::running_mean(x, seen_, sum_, mean_);
    const auto& summary = running_ ? mean_ : x;
    into::linear(summary, w_.hidden, w_.hidden_bias, hidden_);
    into::gelu(hidden_);
    into::linear(hidden_, w_.output, w_.output_bias, raw_);
    into::linear(summary, w_.gate, w_.gate_bias, logit_);
    if (entropy_gate_) scale_logit(x);
    into::hybrid_operator(raw_, logit_, operator_);
    into::mix_and_norm(operator_, x, w_.norm, mixed_, normalized_);
    return normalized_;
  }

  void write(const Tensor& y, Tensor& x) override {
    into::add(mixed_, y);
    into::copy(mixed_, x);
  }

  void continue_means(PoolMemory& memory, int64_t count) override {
    if (!running_) return;
    seen_ = count;
    take_sum(memory, sum_);
    if (entropy_gate_) take_sum(memory, entropy_sum_);
  }

 private:
  // The memory only returns means, so the sum is derived from the mean of the values and one zero.
  void take_sum(PoolMemory& memory, Tensor& sum) const {
    const auto mean = memory.running_mean(torch::zeros_like(sum).unsqueeze(1)).squeeze(1);
    sum.copy_(mean * static_cast<double>(seen_ + 1));
  }

  // logit ← logit (1 + mean entropy)
  void scale_logit(const Tensor& x) {
    into::stream_entropy(x, streams_, entropy_);
    if (running_) into::running_mean(entropy_, seen_, entropy_sum_, entropy_mean_);
    into::add_product(logit_, running_ ? entropy_mean_ : entropy_);
  }

  EdeltaWeights w_;
  int64_t streams_, seen_ = 0;
  bool running_, entropy_gate_;
  Tensor sum_, mean_, hidden_, raw_, logit_, entropy_, entropy_sum_, entropy_mean_, operator_,
      mixed_, normalized_;
};

}  // namespace

std::unique_ptr<TokenStep> Edelta::token_step(int64_t batch) const {
  if (!gated() || hard() || pool_ == Pool::sequence || !into::has_hybrid_operator(traits_.streams))
    return nullptr;
  torch::NoGradGuard no_grad;
  const auto together = Perceptron::together({u_.get(), v_.get(), beta_.get(), k_.get()});
  return std::make_unique<EdeltaStep>(EdeltaWeights{.hidden = together.hidden,
                                                    .hidden_bias = together.hidden_bias,
                                                    .output = together.output,
                                                    .output_bias = together.output_bias,
                                                    .gate = gate_->weight.detach(),
                                                    .gate_bias = gate_->bias.detach(),
                                                    .norm = norm_->weight().detach()},
                                      batch, traits_.streams, pool_ == Pool::causal,
                                      options_.gate == "entropy");
}

}  // namespace geores
