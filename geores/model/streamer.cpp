#include "geores/model/streamer.h"

#include "geores/base/error.h"

namespace geores {

Streamer::Streamer(Transformer& model, int64_t batch) : model_(model) {
  require(model.traits().causal, "stream",
          "{} with these options needs the whole sequence; choose pool = causal or token",
          model.config().connection);
  for (const auto& block : model.blocks())
    caches_.push_back(block->make_cache(batch, model.config().context));
}

Tensor Streamer::step(const Tensor& x) {
  torch::NoGradGuard no_grad;
  memory_.start_pass();
  Trace trace(memory_);
  auto state = model_.initial_state(x.unsqueeze(1), position_);
  for (size_t i = 0; i < caches_.size(); ++i)
    state = model_.blocks()[i]->forward(state, trace, &caches_[i]);
  ++position_;
  return model_.outputs(state).squeeze(1);
}

}  // namespace geores
