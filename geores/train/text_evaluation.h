// The loss of a model over a whole text: every id is scored once.
#pragma once

#include "geores/model/model.h"
#include "geores/train/communication/communicator.h"

namespace geores {

// Windows of `context` ids, one every `stride` ids; each window scores its last `stride` ids, so a
// smaller stride gives every id more context. The first id is predicted from `before_first`.
struct TextWindows {
  int64_t context = 0;
  int64_t stride = 0;  // 1 .. context
  int64_t before_first = 0;
  int64_t most_logits = 1 << 25;  // held at once; determines how many windows are read together
};

struct TextLoss {
  double nats = 0;  // the sum
  int64_t ids = 0;

  double mean() const { return nats / static_cast<double>(ids); }
  double perplexity() const;                    // exp(nats/ids)
  double bits_per_byte(int64_t bytes) const;    // nats/(ln 2 · bytes)
  double word_perplexity(int64_t words) const;  // exp(nats/words)
};

// ids: (n) int16 on the CPU (ops/training/sequences.h). The model may be on a GPU.
TextLoss text_loss(Model& model, const Tensor& ids, const TextWindows& windows,
                   const Communicator& communicator = one_process());

}  // namespace geores
