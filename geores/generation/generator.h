// Continues a row of ids with a model, one id at a time.
//   Generator generator(model, prompt, {.sampling = {.temperature = 0.8}});
//   while (...) generator.next().id;
// With the cache (Model::decoder) an id costs one position. A model has only so many positions: when
// they are used up, the last half of the ids is read again from position 0, one pass for every half
// context. Without the cache each id costs a pass over the last ids that fit, as in nanoGPT. The model
// must not change meanwhile.
#pragma once

#include <memory>

#include "geores/model/model.h"
#include "geores/text/sampling.h"

namespace geores {

struct GenerationOptions {
  SamplingOptions sampling = {};
  bool cache = true;
};

class Generator {
 public:
  // `sample` is the number of this text among several from one prompt. The prompt must have an id
  // and all ids must be below the model's vocabulary.
  Generator(Model& model, const Ids& prompt, const GenerationOptions& options, uint64_t sample = 0);

  Chosen next();

  const Ids& ids() const { return ids_; }           // prompt included
  int64_t times_reread() const { return reread_; }  // beyond the context

  // The logits that the next id is chosen from (vocabulary), float64.
  std::vector<double> logits();

 private:
  Tensor from_window();
  Tensor from_cache();
  Tensor last_ids(int64_t count) const;  // (1, count)

  Model& model_;
  GenerationOptions options_;
  uint64_t sample_;
  Ids ids_;
  size_t prompt_;
  int64_t context_;
  std::unique_ptr<Decoder> decoder_;
  int64_t read_ = 0;    // positions of the decoder in use
  int64_t unread_ = 0;  // ids that the decoder has not seen
  int64_t reread_ = 0;
  std::vector<double> latest_;  // logits of the last id that was read
};

}  // namespace geores
