#include "lab/diagnostics/recursion_report.h"

#include "lab/diagnostics/measures.h"

namespace geores {
namespace {

constexpr int64_t kMostStreams = 16;  // larger operators act on the values of a token

}  // namespace

nlohmann::json RecursionReport::to_json() const {
  nlohmann::json all = {{"norm", norm}, {"product", product}};
  if (!gate.empty()) all["gate"] = gate;
  return all;
}

std::optional<RecursionReport> describe_recursion(Model& model, const Tensor& x) {
  const torch::NoGradGuard no_grad;
  Trace trace(/*probing=*/true);
  model.predict(x.to(model.parameters().front().device()), trace);
  RecursionReport report;
  Tensor product;
  for (const auto& [name, values] : trace.probes()) {
    if (name == "gamma") report.gate.push_back(values.mean().item<double>());
    if (name != "operator") continue;
    if (values.size(-1) < 2 || values.size(-1) > kMostStreams) return std::nullopt;
    const auto mixers = values.to(torch::kCPU, torch::kFloat64);
    product = product.defined() ? mixers.matmul(product) : mixers;
    report.norm.push_back(singular_values(mixers).select(-1, 0).mean().item<double>());
    report.product.push_back(singular_values(product).select(-1, 1).mean().item<double>());
  }
  if (report.norm.empty()) return std::nullopt;
  return report;
}

}  // namespace geores
