#include "geores/portable/routed.h"

#include <algorithm>
#include <cmath>

#include "geores/manifold/cayley_iterative.h"
#include "geores/manifold/hybrid.h"
#include "geores/manifold/sigmoid_route.h"
#include "geores/portable/kinds.h"
#include "geores/portable/summary.h"

namespace geores::portable {

Routed::Routed(const ConnectionSource& source, int stream_width, bool tiled)
    : streams_(source.streams),
      stream_width_(stream_width),
      tiled_(tiled),
      norm_(LayerNorm::read(source, source.name + ".norm",
                            tiled ? stream_width * streams_ : stream_width, false)),
      collected_(source.arena.doubles(static_cast<std::size_t>(streams_) * stream_width)) {}

void Routed::read(int position, double* state, double* input) {
  route(position, state, routes_);
  std::fill_n(collected_, streams_ * stream_width_, 0.0);
  for (int copy = 0; copy < (tiled_ ? streams_ : 1); ++copy)
    for (int j = 0; j < streams_; ++j)
      for (int c = 0; c < stream_width_; ++c)
        collected_[copy * stream_width_ + c] += routes_.read[j] * state[j * stream_width_ + c];
  if (rms_epsilon_ < 0) return norm_.apply(collected_, input);
  rms_normalize(collected_, stream_width_, rms_epsilon_, input);
  for (int c = 0; c < stream_width_; ++c) input[c] *= norm_.weight[c];
}

void Routed::write(int, const double* output, double* state) {
  for (int i = 0; i < streams_; ++i)
    for (int c = 0; c < stream_width_; ++c) {
      double sum = routes_.write[i] * output[(tiled_ ? i * stream_width_ : 0) + c];
      for (int j = 0; j < streams_; ++j) sum += routes_.mix(i, j) * state[j * stream_width_ + c];
      collected_[i * stream_width_ + c] = sum;
    }
  std::copy_n(collected_, streams_ * stream_width_, state);
}

namespace {

// weights ← softmax over `count` values that are `stride` apart, each divided by `temperature`.
void softmax(const double* logits, int count, int stride, double temperature, double* weights) {
  double largest = logits[0], sum = 0;
  for (int i = 1; i < count; ++i) largest = std::max(largest, logits[i * stride]);
  for (int i = 0; i < count; ++i)
    sum += weights[i] = std::exp((logits[i * stride] - largest) / temperature);
  for (int i = 0; i < count; ++i) weights[i] /= sum;
}

// raw = [H̃_pre | H̃_post], n × n each. H_pre = softmax of H̃_pre's rows acts through the means of its
// columns, H_post = softmax of H̃_post's columns through the sums of its rows.
void softmax_routes(const double* raw, int n, double temperature, Routes& routes) {
  routes.read = routes.write = {};
  double weights[kMostStreams];
  for (int line = 0; line < n; ++line) {
    softmax(raw + line * n, n, 1, temperature, weights);
    for (int j = 0; j < n; ++j) routes.read[j] += weights[j] / n;
    softmax(raw + n * n + line, n, n, temperature, weights);
    for (int i = 0; i < n; ++i) routes.write[i] += weights[i];
  }
}

// JPmHC with the Cayley mixers: one projection [H̃_pre | H̃_post | H̃_res] of LN(x).
class CayleyRouted final : public Routed {
 public:
  explicit CayleyRouted(const ConnectionSource& source)
      : Routed(source, source.width / source.streams, false),
        norm_(LayerNorm::read(source, source.name + ".mixer.norm", source.width, true)),
        fused_(Linear::read(source, source.name + ".mixer.fused",
                            3 * source.streams * source.streams, source.width,
                            source.flag("bias", true))),
        exact_(source.text("mixer", "cayley") == "cayley_exact"),
        alpha_(source.number("cayley_alpha", 0.1)),
        temperature_(source.number("temperature", 1)),
        iterations_(source.count("cayley_iterations", 2)),
        normalized_(source.arena.doubles(source.width)),
        raw_(source.arena.doubles(fused_.rows)) {}

 private:
  void route(int, double* state, Routes& routes) override {
    norm_.apply(state, normalized_);
    fused_.apply(normalized_, raw_);
    softmax_routes(raw_, streams_, temperature_, routes);
    const auto h = leading_block(raw_ + 2 * streams_ * streams_, streams_, streams_);
    routes.mix = exact_ ? manifold::cayley_transform((-alpha_ / 2) * (h - manifold::transpose(h)))
                        : manifold::iterative_cayley(h, alpha_, iterations_);
  }

  LayerNorm norm_;
  Linear fused_;
  bool exact_;
  double alpha_, temperature_;
  int iterations_;
  double *normalized_, *raw_;
};

// EΔ's operator from one perceptron, then routes from LN(g).
class EdeltaStream final : public Routed {
 public:
  explicit EdeltaStream(const ConnectionSource& source)
      : Routed(source, source.width / source.streams, false),
        summary_(Summary::pool_from(source.text("pool", "sequence")), source.width, source.arena),
        generator_norm_(
            LayerNorm::read(source, source.name + ".generator_norm", source.width, true)),
        router_norm_(LayerNorm::read(source, source.name + ".router_norm", source.width, true)),
        generator_(Perceptron::read(source, source.name + ".generator", source.width,
                                    3 * source.streams + 2)),
        router_(Linear::read(source, source.name + ".router", 2 * source.streams * source.streams,
                             source.width, true)),
        normalized_(source.arena.doubles(source.width)),
        raw_(source.arena.doubles(router_.rows)),
        probes_(static_cast<Probe*>(source.arena.bytes(source.context, sizeof(Probe)))) {}

  void look(const double* states, int, int to) override {
    summary_.look(states, streams_ * stream_width_, to);
  }
  Probe probe(int position) const override { return probes_[position]; }

 private:
  void route(int position, double* state, Routes& routes) override {
    const int n = streams_;
    generator_norm_.apply(summary_.at(position, state), normalized_);
    double values[3 * kMostStreams + 2];  // u | v | β | k | γ
    generator_.apply(normalized_, values);
    manifold::HybridGenerators<double, kMostStreams> p{};
    std::copy_n(values, n, p.u.at);
    std::copy_n(values + n, n, p.v.at);
    p.beta = softplus(values[2 * n]);
    std::copy_n(values + 2 * n + 1, n, p.k.at);
    normalize(p.k.at, n);
    p.gamma = sigmoid(values[3 * n + 1]);
    mix_streams(manifold::hybrid_operator(p), n, stream_width_, state, normalized_);
    probes_[position] = {p.gamma, p.beta, rotation_angle(p)};

    router_norm_.apply(state, normalized_);
    router_.apply(normalized_, raw_);
    softmax_routes(raw_, n, 1, routes);
    routes.mix = manifold::identity<double, kMostStreams>();
  }

  Summary summary_;
  LayerNorm generator_norm_, router_norm_;
  Perceptron generator_;
  Linear router_;
  double *normalized_, *raw_;
  Probe* probes_;
};

// How H_res follows from a projection of the normalized state.
enum class Mixing {
  free,
  none,
  sinkhorn,
  softmax_sinkhorn,
  guarded,
  projector,
  permutations,
  sphere
};

// Everything with x' = RMSNorm(x), read = σ(pre), write = 2σ(post): the hyper-connections, the EΔ
// paper's mHC, and JPmHC's other mixers.
class SigmoidRouted final : public Routed {
 public:
  // `name`: of the module that holds the projections; `epsilon` of the norm before them. An option
  // that the configuration does not have is as it was before there was such an option.
  SigmoidRouted(const ConnectionSource& source, const Name& name, int stream_width, bool tiled,
                Mixing mixing, double epsilon = 1e-6)
      : Routed(source, stream_width, tiled),
        mixing_(mixing),
        pre_(projection(source, name + ".pre")),
        post_(projection(source, name + ".post")),
        iterations_(source.count("sinkhorn_iterations", 20)),
        epsilon_(epsilon),
        bound_(mixing == Mixing::sinkhorn ? source.number("logit_bound", 10) : 0),
        rows_last_(source.text("sinkhorn_order", "columns_last") == "rows_last"),
        normalized_(source.arena.doubles(streams_ * stream_width)) {
    if (mixing == Mixing::softmax_sinkhorn) {
      guard_ = source.number("guard", 1e-6);
      epsilon_ = epsilon == 0 ? 1e-6 : epsilon;
      rms_epsilon_ = epsilon_;
    }
    refuse_unless(pre_.rows == streams_ && post_.rows == streams_, source.name.text(),
                  "does not read and write {} streams", {streams_});
    int rows = streams_ * streams_;
    if (mixing == Mixing::projector) rows = streams_ * (streams_ / 2);
    if (mixing == Mixing::sphere) {
      rows = streams_ - 1;
      res_ = projection(source, name + ".singular");
      if (streams_ > 2) {
        left_ = projection(source, name + ".left");
        right_ = projection(source, name + ".right");
        const int entries = (streams_ - 1) * (streams_ - 2) / 2;
        refuse_unless(left_.rows == entries && right_.rows == entries, source.name.text(),
                      "a rotation of {} streams has {} entries", {streams_, entries});
        if (source.weights.contains(name + ".left_amplitude")) {
          left_amplitude_ = source.single(name + ".left_amplitude");
          right_amplitude_ = source.single(name + ".right_amplitude");
        }
      }
    } else if (mixing == Mixing::none) {
      rows = 0;
    } else {
      res_ = projection(source, name + ".res");
    }
    if (mixing == Mixing::permutations) {
      rows = res_.rows;
      permutations_ = source.read(name + ".permutations", rows, streams_ * streams_);
    }
    refuse_unless(res_.rows == rows, source.name.text(), "mixes by {} values, not by {}",
                  {res_.rows, rows});
    projected_ =
        source.arena.doubles(std::max(std::max(res_.rows, streams_), left_.rows + right_.rows));
    if (source.weights.contains(name + ".rms_weight"))
      norm_weight_ = source.read(name + ".rms_weight", streams_ * stream_width);
  }

 private:
  // α ⊙ (W x) + b with α multiplied into W. α has one value, or one for each equal part of b.
  Linear projection(const ConnectionSource& source, const Name& name) const {
    const auto& shape = source.weights.shape(name + ".weight");
    const int rows = shape.axes > 0 ? static_cast<int>(shape[0]) : 0;
    const int columns = streams_ * stream_width_;
    const auto& bias = source.weights.shape(name + ".bias");
    refuse_unless(bias.count() == static_cast<std::size_t>(rows), source.weights.where(),
                  "tensor {} must have {} values", {quoted(name + ".bias"), rows});
    const Linear map{rows, columns, source.read(name + ".weight", rows, columns),
                     source.read(name + ".bias", bias)};
    if (!source.weights.contains(name + ".scale")) return map;
    const auto& parts = source.weights.shape(name + ".scale");
    const auto count = static_cast<int>(parts.count());
    refuse_unless(count > 0 && rows % count == 0, source.weights.where(),
                  "tensor {} does not fit {} values", {quoted(name + ".scale"), rows});
    const double* scale = source.read(name + ".scale", parts);
    for (int i = 0; i < rows * columns; ++i) map.weight[i] *= scale[i / (rows * columns / count)];
    return map;
  }

  void route(int, double* state, Routes& routes) override {
    rms_normalize(state, streams_ * stream_width_, epsilon_, normalized_);
    for (int i = 0; norm_weight_ != nullptr && i < streams_ * stream_width_; ++i)
      normalized_[i] *= norm_weight_[i];
    double* projected = projected_;
    pre_.apply(normalized_, projected);
    for (int j = 0; j < streams_; ++j) routes.read[j] = manifold::read_route(projected[j]) + guard_;
    post_.apply(normalized_, projected);
    for (int i = 0; i < streams_; ++i) routes.write[i] = manifold::write_route(projected[i]);
    routes.mix = mix();
  }

  Square mix() {
    const int n = streams_;
    double* projected = projected_;
    if (mixing_ == Mixing::none) return manifold::identity<double, kMostStreams>();
    if (mixing_ == Mixing::sphere) return mix_on_sphere();
    res_.apply(normalized_, projected);
    if (mixing_ == Mixing::permutations) {
      softmax(projected, res_.rows, 1, 1, projected);
      Square sum{};
      for (int m = 0; m < res_.rows; ++m)
        for (int i = 0; i < n * n; ++i)
          sum(i / n, i % n) +=
              projected[m] * permutations_[static_cast<std::size_t>(m) * n * n + i];
      return sum;
    }
    const auto raw = leading_block(projected, n, res_.rows / n);
    if (mixing_ == Mixing::sinkhorn)
      return rows_last_ ? manifold::transpose(
                              doubly_stochastic(manifold::transpose(raw), n, iterations_, bound_))
                        : doubly_stochastic(raw, n, iterations_, bound_);
    if (mixing_ == Mixing::softmax_sinkhorn)
      return manifold::transpose(
          softmax_doubly_stochastic(manifold::transpose(raw), n, iterations_, guard_));
    if (mixing_ == Mixing::guarded)
      return doubly_stochastic(raw, n, iterations_, /*bound=*/0, /*guard=*/1e-8);
    return mixing_ == Mixing::projector ? projector(raw, n) : raw;
  }

  Square mix_on_sphere() {
    double *left = projected_, *right = left + left_.rows, sigma[kMostStreams];
    left_.apply(normalized_, left);
    right_.apply(normalized_, right);
    res_.apply(normalized_, sigma);
    for (int i = 0; i < left_.rows; ++i) {
      left[i] = left_amplitude_ * std::tanh(left[i]);
      right[i] = right_amplitude_ * std::tanh(right[i]);
    }
    for (int i = 0; i < res_.rows; ++i) sigma[i] = std::tanh(sigma[i]);
    return sphere(left, right, sigma, streams_);
  }

  Mixing mixing_;
  Linear pre_, post_, res_, left_, right_;
  int iterations_;
  double epsilon_, bound_, guard_ = 0;
  bool rows_last_;
  double left_amplitude_ = 1, right_amplitude_ = 1;
  const double *permutations_ = nullptr, *norm_weight_ = nullptr;
  double *normalized_, *projected_;
};

// HC as published: each stream says by itself how it is read, mixed and written.
class StreamwiseRouted final : public Routed {
 public:
  explicit StreamwiseRouted(const ConnectionSource& source)
      : Routed(source, source.width, false),
        pre_(map(source, ".pre", 1, {streams_})),
        res_(map(source, ".res", streams_, {streams_, streams_})),
        post_(map(source, ".post", 1, {streams_})),
        scale_(source.single(source.name + ".scale")),
        post_scale_(source.single(source.name + ".post_scale")),
        epsilon_(source.number("norm_epsilon", 1e-6)),
        normalized_(source.arena.doubles(source.width)) {}

 private:
  // The weights act on one stream, the bias has an entry for every route.
  struct Map {
    Linear dynamic;
    const double* bias;
  };
  static Map map(const ConnectionSource& source, const char* name, int rows, const Shape& bias) {
    return {Linear::read(source, source.name + name, rows, source.width, false),
            source.read(source.name + name + ".bias", bias)};
  }

  void route(int, double* state, Routes& routes) override {
    double values[kMostStreams];
    for (int j = 0; j < streams_; ++j) {
      rms_normalize(state + j * stream_width_, stream_width_, epsilon_, normalized_);
      pre_.dynamic.apply(normalized_, values);
      routes.read[j] = scale_ * std::tanh(values[0]) + pre_.bias[j];
      post_.dynamic.apply(normalized_, values);
      routes.write[j] = post_scale_ * std::tanh(values[0]) + post_.bias[j];
      res_.dynamic.apply(normalized_, values);
      for (int i = 0; i < streams_; ++i)
        routes.mix(i, j) = scale_ * std::tanh(values[i]) + res_.bias[i * streams_ + j];
    }
  }

  Map pre_, res_, post_;
  double scale_, post_scale_, epsilon_;
  double* normalized_;
};

Connection* hyper_connection(const ConnectionSource& source, Mixing mixing) {
  return source.arena.make<SigmoidRouted>(source, source.name, source.width, false, mixing,
                                          source.number("norm_epsilon", 1e-6));
}

}  // namespace

Connection* make_edelta_stream(const ConnectionSource& source) {
  return source.arena.make<EdeltaStream>(source);
}

Connection* make_jpmhc(const ConnectionSource& source) {
  refuse_unless(source.text("layout", "split") == "split", "model",
                "live predictions lack layout expand of jpmhc");
  const auto mixer = source.text("mixer", "cayley");
  if (mixer == "cayley" || mixer == "cayley_exact") return source.arena.make<CayleyRouted>(source);
  refuse_unless(mixer == "sinkhorn" || mixer == "grassmann" || mixer == "permutation", "config",
                "JPmHC has no mixer {}", {quoted(mixer)});
  return source.arena.make<SigmoidRouted>(source, source.name + ".mixer",
                                          source.width / source.streams, false,
                                          mixer == "sinkhorn"    ? Mixing::sinkhorn
                                          : mixer == "grassmann" ? Mixing::projector
                                                                 : Mixing::permutations);
}

Connection* make_mhc_split(const ConnectionSource& source) {
  return source.arena.make<SigmoidRouted>(source, source.name, source.width / source.streams, true,
                                          Mixing::guarded);
}

Connection* make_hc(const ConnectionSource& source) {
  if (source.text("form", "sigmoid") == "original")
    return source.arena.make<StreamwiseRouted>(source);
  return hyper_connection(source, Mixing::free);
}
Connection* make_mhc(const ConnectionSource& source) {
  refuse_unless(source.text("head", "sum") == "sum", "model",
                "has a learned head: live predictions have a sum only");
  const auto form = source.text("form", "paper");
  refuse_unless(form != "v41", "model", "live predictions lack form v41 of mhc");
  if (form == "v4") return hyper_connection(source, Mixing::softmax_sinkhorn);
  if (source.text("mixer", "sinkhorn") == "identity") return hyper_connection(source, Mixing::none);
  return hyper_connection(source, Mixing::sinkhorn);
}
Connection* make_mhc_lite(const ConnectionSource& source) {
  return hyper_connection(source, Mixing::permutations);
}
Connection* make_shc(const ConnectionSource& source) {
  return hyper_connection(source, Mixing::sphere);
}

}  // namespace geores::portable
