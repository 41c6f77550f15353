// The interface of a residual connection. A connection wraps a sublayer F, such as attention or an
// MLP, where a plain transformer has `x + F(norm(x))`. It owns the norm, because the papers put it
// in different positions:
//
//   auto connection = geores::make_residual("edelta", {.width = 128, .streams = 4});
//   geores::Trace trace;
//   x = connection->forward(x, [&](const Tensor& h) { return attention->forward(h); }, trace);
//   if (trace.loss().defined()) loss = task_loss + trace.loss();
//
// The state x is (B, T, D) for the layouts whole and split, and (B, T, n, C) for expand
// (StreamLayout).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "geores/ops/dense/post_norm.h"
#include "geores/ops/inference/token_step.h"
#include "geores/ops/streams/pool.h"
#include "geores/ops/streams/state.h"
#include "geores/ops/torch.h"

namespace geores {

using torch::Tensor;

class StreamHead;  // modules/stream_head.h

// Any map (B, T, w) -> (B, T, w), w = Traits::sublayer_width; a lambda is enough. A sublayer that
// begins and ends with linear maps may provide a second function that folds the connection's linear
// maps into its weights, which saves two matrix products.
class Sublayer {
 public:
  using Map = std::function<Tensor(const Tensor& h)>;
  using Between = std::function<Tensor(const Tensor& pre, const Tensor& h, const Tensor& post)>;

  template <class F>
  requires std::is_invocable_r_v<Tensor, F&, const Tensor&> Sublayer(F f) : map_(std::move(f)) {}
  Sublayer(Map map, Between between) : map_(std::move(map)), between_(std::move(between)) {}

  Tensor operator()(const Tensor& h) const { return map_(h); }

  // post F(pre h); pre and post (w, w).
  Tensor between(const Tensor& pre, const Tensor& h, const Tensor& post) const;

 private:
  Map map_;
  Between between_;
};

// The results of a forward pass besides its output: the auxiliary loss and, on request, probes.
// Probes are named, detached tensors; the header of each connection lists their names.
class Trace {
 public:
  explicit Trace(bool probing = false) : probing_(probing) {}

  // For a pass that continues the sequences of earlier passes: connections pool through the memory.
  explicit Trace(PoolMemory& memory) : probing_(false), memory_(&memory) {}
  PoolMemory* memory() const { return memory_; }

  // The loss is the sum of all entries.
  void add_loss(const Tensor& loss) { losses_.push_back(loss); }

  // The sum of all auxiliary losses; undefined if no connection added one.
  Tensor loss() const;

  bool probing() const { return probing_; }

  // `make` runs only if probing, so a probe costs nothing in training.
  template <class Make>
  void probe(const char* name, Make&& make) {
    if (probing_) probes_.emplace_back(name, make().detach());
  }
  const std::vector<std::pair<std::string, Tensor>>& probes() const { return probes_; }

 private:
  bool probing_;
  PoolMemory* memory_ = nullptr;
  std::vector<Tensor> losses_;  // summed once at the end, which needs fewer kernels
  std::vector<std::pair<std::string, Tensor>> probes_;
};

enum class StreamLayout {
  whole,  // one stream of the full width
  split,  // the width is cut into n streams of width D/n
  expand  // n streams, each of the full width
};

// The axis of R, the linear operator that carries the state past the sublayer (the probe
// "operator").
enum class OperatorAxis {
  streams,  // R is n × n and mixes streams (1 × 1 for layout whole)
  width     // R is D × D and acts on the values of a token
};

enum class InitialMap {
  identity,       // R = I exactly at initialisation
  near_identity,  // ‖R − I‖₂ < 0.05
  other           // further away
};

// The guarantees of a connection; the contract test checks each of them.
struct Traits {
  StreamLayout layout = StreamLayout::whole;
  int64_t streams = 1;
  int64_t state_width = 0;     // values a token carries: D, or n·C for expand
  int64_t sublayer_width = 0;  // width at which F works
  OperatorAxis axis = OperatorAxis::streams;
  bool causal = true;       // outputs before t do not depend on x_t
  bool orthogonal = false;  // R is orthogonal for all parameter values
  InitialMap initial_map = InitialMap::other;
  // F reads with weights of the connection before (State::read): stacks call advance(), not forward().
  bool reads_late = false;
};

class Residual : public torch::nn::Module {
 public:
  virtual Tensor forward(const Tensor& x, const Sublayer& f, Trace& trace) = 0;

  // forward() inside a stack of connections. The branch of the previous sublayer may still be
  // pending, and this connection may leave its own branch pending for the next one. Override it if
  // the first operation of the connection can add the branch in its own pass.
  virtual State advance(const State& state, const Sublayer& f, Trace& trace) {
    return forward(state.total(), f, trace);
  }

  // RMSNorm over all values of a token after forward(), for models that normalize their state after
  // each connection; no product. Override it if the last operation of the connection can compute
  // both.
  virtual PostNormed forward_normalized(const Tensor& x, const Sublayer& f, const PostNorm& norm,
                                        Trace& trace);

  virtual const Traits& traits() const = 0;

  // Linear maps directly before and after the sublayer; undefined if there are none. forward()
  // passes them to Sublayer::between; with token_step() the caller applies them.
  virtual Tensor pre() const { return {}; }
  virtual Tensor post() const { return {}; }

  // For float32 and float64 on a CPU. Null if the connection has no such form; it then processes
  // tensors of length 1.
  virtual std::unique_ptr<TokenStep> token_step(int64_t /*batch*/) const { return nullptr; }

  // AdamW does not update parameters on a manifold: manifold_step() does. Its state is in buffers
  // of this module, so it is saved and loaded with the module.
  virtual std::vector<Tensor> manifold_parameters() const { return {}; }
  virtual void manifold_step() {}

  // Weight decay applies to parameters of rank >= 2. These are the exceptions: rank >= 2 without
  // decay, or lower rank with decay.
  virtual std::vector<Tensor> decay_exceptions() const { return {}; }

  // The learned static parameters of the mixer of streams, for diagnostics. Empty without a mixer,
  // or if none of it is learned.
  virtual std::vector<Tensor> mixer_parameters() const { return {}; }

  // Whether forward() supports a bfloat16 state (Precision::bf16_state) and returns one, in the
  // current form of this thread. Other connections receive it in float32.
  virtual bool supports_bf16_state() const { return false; }

  // For the last connection of a stack in layout expand: the module that combines n streams into
  // one. Null: their sum.
  virtual std::shared_ptr<StreamHead> make_head() const { return nullptr; }
};

// to_state converts an embedding (B, T, w) to the state of a connection; from_state converts the
// state after the last block back. Layout expand repeats the embedding n times and sums the streams
// at the end, or weighs them by State::read; the other layouts change nothing. from_state returns float32 or float64, also for a
// bfloat16 state.
Tensor to_state(const Traits& traits, const Tensor& embedding);
Tensor from_state(const Traits& traits, const Tensor& state);
State from_state(const Traits& traits, const State& state);

struct ResidualConfig {
  int64_t width = 128;  // D: of the state for whole and split, of one stream for expand
  int64_t streams = 4;  // n; layout whole ignores it
  int64_t index = 0;    // position in the stack: hyper-connections read stream index mod n first
  nlohmann::json options = nullptr;  // the connection's own options; unknown keys are refused
};

// Throws an Error that names `where` if n streams do not fit the width.
void require_streams(const ResidualConfig& config, StreamLayout layout, const std::string& where);

std::string to_string(StreamLayout layout);
std::string to_string(InitialMap map);

}  // namespace geores
