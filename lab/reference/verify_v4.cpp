// DeepSeek-V4's hyper-connections around tanh(W h): two in a row, then the learned head. V4.1's: any number,
// whose last H_pre collapses the streams.
#include "geores/base/config.h"
#include "geores/base/error.h"
#include "geores/modules/stream_head.h"
#include "geores/ops/streams/streams.h"
#include "geores/residual/registry.h"
#include "lab/reference/dump_comparison.h"
#include "lab/reference/public_names.h"

namespace geores {
namespace {

// The public module's norm before the sublayer computes in float32 whatever the model's type: what
// comes after it in the dump has errors of 1e-7. The values before it, the routes of the first
// connection, is exact.
constexpr double kRoundedLimit = 3e-7;

// V4.1's dump is float64 throughout.
constexpr double kExactLimit = 1e-12;

struct V4DumpConfig {
  int64_t batch = 0, length = 0, streams = 0, width = 0, sites = 2, sinkhorn_iterations = 20;
  double guard = 1e-6, norm_epsilon = 1e-6;

  Fields fields() {
    return Fields()
        .add("B", batch, "batch", {.min = 1})
        .add("S", length, "sequence length", {.min = 1})
        .add("streams", streams, "streams", {.min = 1, .max = 1e4})
        .add("width", width, "of a stream", {.min = 1, .max = 1e6})
        .add("sites", sites, "connections", {.min = 1, .max = 1e4})
        .add("sinkhorn_iterations", sinkhorn_iterations, "of the mixer", {.min = 1})
        .add("hc_eps", guard, "in H_pre, the mixer and the head", {.min = 0})
        .add("rms_eps", norm_epsilon, "of the norms", {.min = 0});
  }
};

Tensor probed(const Trace& trace, const std::string& name) {
  for (const auto& [key, value] : trace.probes())
    if (key == name) return value;
  return {};
}

}  // namespace

Verification verify_v4(Dump& dump, const std::string& kind) {
  V4DumpConfig config;
  const auto json = parse_json(dump.metadata("config"), dump.name());
  config.fields().read(json, dump.name());
  for (const auto* key : {"B", "S", "streams", "width"})
    require(json.contains(key), dump.name(), "config has no '{}'", key);
  const auto n = config.streams;
  const bool late = kind == "mhc_v41";
  const nlohmann::json options = {{"form", late ? "v41" : "v4"},
                                  {"head", late ? "sum" : "learned"},
                                  {"sinkhorn_iterations", config.sinkhorn_iterations},
                                  {"guard", config.guard},
                                  {"norm_epsilon", config.norm_epsilon}};
  DumpedParameters parameters;
  const auto as_it_is = [](const Tensor& t) { return t; };
  const auto add = [&](const std::string& prefix, const Tensor& parameter,
                       const PublicTensor& source) {
    parameters.push_back({prefix + source.tensor, parameter, source.part});
  };
  std::vector<std::shared_ptr<Residual>> connections;
  std::vector<Tensor> weights;
  for (int64_t i = 0; i < config.sites; ++i) {
    const auto number = std::to_string(i);
    connections.push_back(make_residual(
        "mhc", {.width = config.width, .streams = n, .index = i, .options = options}));
    connections.back()->to(torch::kFloat64);
    for (const auto& item : connections.back()->named_parameters()) {
      if (item.key() == "norm.weight")
        add("norms." + number + ".", item.value(), {"weight", as_it_is});
      else
        add("connections." + number + ".", item.value(), v4_tensor(item.key(), n));
    }
    weights.push_back(
        torch::zeros({config.width, config.width}, torch::kFloat64).requires_grad_(true));
    add("sublayers." + number + ".", weights.back(), {"weight", as_it_is});
  }
  const auto head = connections.back()->make_head();
  if (head) {
    head->to(torch::kFloat64);
    for (const auto& item : head->named_parameters())
      add("head.", item.value(), v4_head_tensor(item.key()));
  }
  load_parameters(dump, parameters);
  Verification result{.kind = kind, .connection = "mhc", .parameters = 0, .groups = {}};
  for (const auto& p : parameters) result.parameters += p.parameter.numel();

  const auto limit = late ? kExactLimit : kRoundedLimit;
  Group routes("routes", late ? kExactLimit : kLimit), out("out", limit);
  const auto compare = [&](const std::string& tensor, const Tensor& ours, Group& group) {
    group.compare(tensor, ours.detach(), dump.read(tensor, ours.sizes()));
  };
  const auto x = dump.read("x", {config.batch, config.length, n, config.width});
  auto start = x.clone().requires_grad_(true);
  State state = start;
  for (int64_t i = 0; i < config.sites; ++i) {
    const auto at = static_cast<size_t>(i);
    const auto before = state;
    Trace trace(/*probing=*/true);
    const auto sublayer = [&](const Tensor& h) {
      return torch::tanh(torch::linear(h, weights[at]));
    };
    state = connections[at]->advance(state, sublayer, trace);
    const auto number = std::to_string(i);
    auto& group = i == 0 ? routes : out;
    compare("out/post." + number, probed(trace, "post"), group);
    compare("out/comb." + number, probed(trace, "operator").transpose(-1, -2), group);
    const auto pre = probed(trace, "pre");
    if (late) compare("out/pre." + number, pre, group);
    const auto streams = before.total();
    const auto read = !late                   ? pre
                      : before.read.defined() ? before.read
                                              : torch::eye(n, pre.options())[0].expand_as(pre);
    compare("out/collapsed." + number, collect_streams(read, streams), group);
  }
  const auto end = state.total();
  const auto collapsed =
      head ? head->forward(end) : from_state(connections.back()->traits(), state).x;
  compare("out/streams", end, out);
  compare("out/head", collapsed, out);
  ((end * dump.read("cotangent/streams", end.sizes())).sum() +
   (collapsed * dump.read("cotangent/head", collapsed.sizes())).sum())
      .backward();
  parameters.push_back({"x", start, as_it_is});
  result.groups = {routes.result(), out.result(),
                   compare_parameters(dump, parameters, "grad", limit,
                                      [](const Tensor& parameter) { return parameter.grad(); })};
  return result;
}

}  // namespace geores
