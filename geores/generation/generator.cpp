#include "geores/generation/generator.h"

#include <algorithm>

#include "geores/base/error.h"

namespace geores {

Generator::Generator(Model& model, const Ids& prompt, const GenerationOptions& options,
                     uint64_t sample)
    : model_(model),
      options_(options),
      sample_(sample),
      ids_(prompt),
      prompt_(prompt.size()),
      context_(model.input().length),
      unread_(static_cast<int64_t>(prompt.size())) {
  options.sampling.check();
  const auto vocabulary = model.input().vocabulary;
  require(vocabulary > 0, "generate", "the model reads vectors, not tokens");
  require(!prompt.empty(), "generate", "the prompt gives no ids");
  for (const auto id : prompt)
    require(id < vocabulary, "generate", "id {} is not below the model's vocabulary of {}", id,
            vocabulary);
}

Tensor Generator::last_ids(int64_t count) const {
  const std::vector<int64_t> some(ids_.end() - count, ids_.end());
  const auto device = model_.parameters().front().device();
  return torch::tensor(some, torch::kInt64).unsqueeze(0).to(device);
}

Tensor Generator::from_window() {
  const auto count = std::min(context_, static_cast<int64_t>(ids_.size()));
  Trace trace;
  return model_.predict(last_ids(count), trace).select(1, count - 1);
}

Tensor Generator::from_cache() {
  if (!decoder_ || read_ + unread_ > context_) {
    // A prompt as long as the context is read whole; later there must be positions left.
    reread_ += decoder_ != nullptr;
    const auto most = decoder_ ? (context_ + 1) / 2 : context_;
    decoder_ = model_.decoder(1);
    read_ = 0;
    unread_ = std::min(most, static_cast<int64_t>(ids_.size()));
  }
  const auto x = last_ids(unread_);
  read_ += unread_;
  unread_ = 0;
  return x.size(1) == 1 ? decoder_->step(x.select(1, 0)) : decoder_->read(x);
}

std::vector<double> Generator::logits() {
  if (options_.cache && unread_ == 0) return latest_;  // asked for twice
  const torch::NoGradGuard no_grad;
  const auto row = (options_.cache ? from_cache() : from_window())
                       .flatten()
                       .to(torch::kCPU, torch::kFloat64)
                       .contiguous();
  latest_ = {row.data_ptr<double>(), row.data_ptr<double>() + row.numel()};
  return latest_;
}

Chosen Generator::next() {
  const auto chosen = choose(logits(), ids_, options_.sampling, sample_, ids_.size() - prompt_);
  ids_.push_back(chosen.id);
  unread_ = 1;
  return chosen;
}

}  // namespace geores
