#include "lab/experiments/reflection.h"

#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/optim/adamw.h>

#include <numbers>

#include "geores/base/error.h"
#include "geores/data/batch_sampler.h"
#include "geores/data/registry.h"
#include "geores/modules/generators.h"
#include "geores/modules/seeding.h"
#include "geores/ops/mixers/hybrid.h"
#include "geores/ops/mixers/isometry.h"
#include "geores/ops/torch.h"

namespace geores {
namespace {

using torch::Tensor;

constexpr int64_t kWidth = 64, kHidden = 128, kBatch = 32;
constexpr double kRate = 1e-3, kAlpha = 0.1;
constexpr int kIterations = 2;

torch::nn::Sequential perceptron(int64_t out, int64_t hidden = kHidden) {
  return torch::nn::Sequential(torch::nn::Linear(kWidth, hidden), torch::nn::GELU(),
                               torch::nn::Linear(hidden, out));
}

// Perceptrons initialised as in the paper's probe; the others are those of the connection
// `isometry`.
torch::nn::Sequential generator(const ReflectionProbe& probe, const Tensor& bias) {
  if (probe.generator != "perceptron")
    return torch::nn::Sequential(Generators(probe.generator, kWidth, probe.hidden, bias));
  auto net = perceptron(bias.numel(), probe.hidden);
  const torch::NoGradGuard no_grad;
  net->named_parameters()["2.bias"] += bias;
  return net;
}

Tensor along(const Tensor& a, const Tensor& b) { return (a * b).sum(-1, /*keepdim=*/true); }

struct Output {
  Tensor y;
  Tensor beta = {}, gamma = {};  // (B, 1) if the operator has them
};

// y = x − βk(kᵀx): a reflection for β = 2.
struct Ddl : torch::nn::Module {
  explicit Ddl(const ReflectionProbe& probe) {
    k = register_module("k", generator(probe, torch::zeros({kWidth})));
    beta = register_module("beta", perceptron(1));
  }
  Output forward(const Tensor& x) {
    const auto direction = normalize(k->forward(x));
    const auto strength = 2 * torch::sigmoid(beta->forward(x));
    return {x - strength * direction * along(direction, x), strength};
  }
  torch::nn::Sequential k{nullptr}, beta{nullptr};
};

// y = γQx + (1 − γ)Hx with u, v orthonormal, so Q turns their plane by 2·atan(β/2).
struct Edelta : torch::nn::Module {
  explicit Edelta(double gate_bias) {
    for (auto& [name, net, out] : std::vector<std::tuple<const char*, torch::nn::Sequential*, int>>{
             {"u", &u, kWidth}, {"v", &v, kWidth}, {"k", &k, kWidth}, {"beta", &beta, 1}})
      *net = register_module(name, perceptron(out));
    gate = register_module("gate", torch::nn::Linear(kWidth, 1));
    torch::NoGradGuard no_grad;
    gate->weight.zero_();
    gate->bias.fill_(gate_bias);
  }
  Output forward(const Tensor& x) {
    const auto e1 = normalize(u->forward(x));
    const auto raw = v->forward(x);
    const auto e2 = normalize(raw - e1 * along(e1, raw));
    const auto strength = torch::softplus(beta->forward(x));
    const auto omega = strength / 2, scale = 2 / (1 + omega.square());
    const auto x1 = along(e1, x), x2 = along(e2, x);
    // Q = I − 2ω²/(1+ω²)(e₁e₁ᵀ + e₂e₂ᵀ) − 2ω/(1+ω²)(e₁e₂ᵀ − e₂e₁ᵀ)
    const auto turned =
        x - scale * omega.square() * (e1 * x1 + e2 * x2) - scale * omega * (e1 * x2 - e2 * x1);
    const auto direction = normalize(k->forward(x));
    const auto mirrored = x - 2 * direction * along(direction, x);
    const auto gamma = torch::sigmoid(gate->forward(x));
    return {gamma * turned + (1 - gamma) * mirrored, strength, gamma};
  }
  torch::nn::Sequential u{nullptr}, v{nullptr}, k{nullptr}, beta{nullptr};
  torch::nn::Linear gate{nullptr};
};

// y = Yx, Y ← I + (α/2)W(I + Y). From Y₀ = I two iterations leave an error of at least 3‖x‖²; from
// Y₀ = I + αW they reach −I.
struct Jpmhc : torch::nn::Module {
  explicit Jpmhc(bool starts_with_w) : own_start(starts_with_w) {
    w = register_module("w", perceptron(kWidth * kWidth));
  }
  Output forward(const Tensor& x) {
    const auto raw = w->forward(x).view({-1, kWidth, kWidth});
    const auto skew = kAlpha * (raw - raw.transpose(1, 2));
    const auto apply = [&](const Tensor& z) { return skew.bmm(z.unsqueeze(-1)).squeeze(-1); };
    auto y = own_start ? x + apply(x) : x;
    for (int i = 0; i < kIterations; ++i) y = x + 0.5 * apply(x + y);
    return {y};
  }
  bool own_start;
  torch::nn::Sequential w{nullptr};
};

// y = Gx, G one factor that is always orthogonal (manifold/isometry.h), with 64 streams of one
// value.
struct AlwaysOrthogonal : torch::nn::Module {
  explicit AlwaysOrthogonal(const ReflectionProbe& probe) : factor(isometry_from(probe.kind)) {
    auto bias = torch::zeros({manifold::generators_of(factor, kWidth)});
    // At φ = 0 the loss of y = −x is stationary for any k, so the phase starts at π.
    if (factor == IsometryFactor::unitary) bias[kWidth] = std::numbers::pi;
    raw = register_module("raw", generator(probe, bias));
  }
  Output forward(const Tensor& x) {
    return {isometry(raw->forward(x), factor, kWidth).matmul(x.unsqueeze(-1)).squeeze(-1)};
  }
  IsometryFactor factor;
  torch::nn::Sequential raw{nullptr};
};

struct Operator {
  std::shared_ptr<torch::nn::Module> module;
  std::function<Output(const Tensor&)> forward;
};

template <class Kind, class... Args>
Operator make(Args... args) {
  auto module = std::make_shared<Kind>(args...);
  return {module, [module](const Tensor& x) { return module->forward(x); }};
}

Operator make_operator(const ReflectionProbe& probe, int64_t seed) {
  return with_seed(seed, [&]() -> Operator {
    if (probe.kind == "ddl") return make<Ddl>(probe);
    if (probe.kind == "edelta") return make<Edelta>(probe.gate_bias);
    if (probe.kind == "jpmhc") return make<Jpmhc>(probe.own_start);
    return make<AlwaysOrthogonal>(probe);
  });
}

nlohmann::json measure(const Operator& op, const Tensor& x, const Tensor& y) {
  torch::NoGradGuard no_grad;
  const auto out = op.forward(x);
  const auto mean = [](const Tensor& t) {
    return t.defined() ? nlohmann::json(t.mean().item<double>()) : nlohmann::json();
  };
  return {{"cosine", torch::cosine_similarity(out.y, y, -1).mean().item<double>()},
          {"loss", torch::mse_loss(out.y, y).item<double>()},
          {"beta", mean(out.beta)},
          {"gamma", mean(out.gamma)}};
}

}  // namespace

const std::vector<ReflectionProbe>& reflection_probes() {
  static const std::vector<ReflectionProbe> all = {
      {.name = "ddl",
       .label = "DDL",
       .kind = "ddl",
       .published_cosine = 0.96,
       .published_gate = {1.995, 0.001, 3}},
      {.name = "edelta",
       .label = "EΔ, gate from −1.5",
       .kind = "edelta",
       .published_cosine = 0.96,
       .published_gate = {0.051, 0.005, 3}},
      {.name = "edelta_neutral", .label = "EΔ, gate from 0", .kind = "edelta", .gate_bias = 0.0},
      {.name = "edelta_idle",
       .label = "EΔ, gate loss alone (no task)",
       .kind = "edelta",
       .task_loss = false},
      {.name = "jpmhc", .label = "JPmHC, Y₀ = I", .kind = "jpmhc", .published_cosine = -0.25},
      {.name = "jpmhc_own",
       .label = "JPmHC, its own Y₀ = I + αW",
       .kind = "jpmhc",
       .own_start = true},
      {.name = "reflections", .label = "two reflections (ours)", .kind = "reflections"},
      {.name = "unitary", .label = "complex reflection (ours)", .kind = "unitary"},
      {.name = "cayley", .label = "Cayley rotation of all planes", .kind = "cayley"},
      {.name = "ddl_wide", .label = "DDL, perceptron of 256", .kind = "ddl", .hidden = 256},
      {.name = "unitary_wide",
       .label = "complex reflection, perceptron of 256",
       .kind = "unitary",
       .hidden = 256},
      {.name = "unitary_falls",
       .label = "complex reflection, rate to 0",
       .kind = "unitary",
       .rate_falls = true},
      {.name = "ddl_linear", .label = "DDL, linear", .kind = "ddl", .generator = "linear"},
      {.name = "reflections_linear",
       .label = "two reflections, linear",
       .kind = "reflections",
       .generator = "linear"},
      {.name = "unitary_linear",
       .label = "complex reflection, linear",
       .kind = "unitary",
       .generator = "linear"},
      {.name = "cayley_linear",
       .label = "Cayley rotation, linear",
       .kind = "cayley",
       .generator = "linear"},
      {.name = "unitary_linear_falls",
       .label = "complex reflection, linear, rate to 0",
       .kind = "unitary",
       .generator = "linear",
       .rate_falls = true},
      {.name = "unitary_both_falls",
       .label = "complex reflection, perceptron and linear, rate to 0",
       .kind = "unitary",
       .generator = "both",
       .rate_falls = true}};
  return all;
}

nlohmann::json run_reflection(const ReflectionProbe& probe, const ReflectionConfig& config,
                              const std::function<void(int64_t)>& progress) {
  const auto data =
      load_dataset({.name = "reflection", .options = {{"train_sequences", config.samples}}});
  const auto flat = [](const Tensor& t) { return t.reshape({-1, kWidth}); };
  const auto train_x = flat(data.train_x), train_y = flat(data.train_y);
  const auto test_x = flat(data.validation_x), test_y = flat(data.validation_y);

  const auto op = make_operator(probe, config.seed);
  torch::optim::AdamW optimizer(op.module->parameters(),
                                torch::optim::AdamWOptions(kRate).weight_decay(0.01));
  const BatchSampler sampler(static_cast<uint64_t>(config.seed), config.samples);
  auto history = nlohmann::json::array();
  const auto record = [&](int64_t step) {
    auto line = measure(op, test_x, test_y);
    line["step"] = step;
    history.push_back(line);
    if (progress) progress(step);
  };
  for (int64_t step = 0; step < config.steps; ++step) {
    if (step % config.record_interval == 0) record(step);
    const auto indices = torch::tensor(sampler.indices(0, step, kBatch), torch::kInt64);
    const auto out = op.forward(train_x.index_select(0, indices));
    auto loss = torch::zeros({});
    if (probe.task_loss) loss = torch::mse_loss(out.y, train_y.index_select(0, indices));
    if (out.gamma.defined()) loss = loss + probe.gate_weight * gate_penalty(out.gamma);
    if (probe.rate_falls)
      for (auto& group : optimizer.param_groups())
        group.options().set_lr(kRate * (1 - static_cast<double>(step) / config.steps));
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
  }
  record(config.steps);
  auto result = history.back();
  result.erase("step");
  result["history"] = history;
  return result;
}

}  // namespace geores
