// Every connection on a GPU, its fused form against its composed form; skipped on machines without
// a GPU.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "geores/ops/run/execution.h"
#include "geores/ops/run/fused_check_test.h"
#include "geores/ops/run/precision.h"
#include "geores/residual/registry.h"

namespace geores {
namespace {

class Gpu : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_gpu()) GTEST_SKIP() << "no GPU";
    torch::manual_seed(5);
  }
  const torch::Device device_{gpu()};
};

double relative_error(const Tensor& a, const Tensor& b) {
  const auto left = a.to(torch::kFloat64), right = b.to(torch::kFloat64);
  return (left - right).norm().item<double>() / (right.norm().item<double>() + 1e-30);
}

struct Pass {
  std::vector<std::pair<std::string, Tensor>> tensors;  // output, auxiliary loss, all gradients
};

using Stack = std::vector<std::shared_ptr<Residual>>;

// Runs connections in sequence, each around a small sublayer, forward and backward. The sublayer
// computes in the type of `middle`: the fused forms pass it a bfloat16 factor, the composed forms
// float32, and it must round both in the same way.
Pass pass_of(const Stack& stack, const Tensor& input, const Tensor& middle, const Tensor& cotangent,
             bool normalized) {
  for (const auto& residual : stack)
    for (const auto& parameter : residual->parameters()) parameter.mutable_grad() = Tensor();
  const auto x = input.detach().clone().requires_grad_(true);
  Trace trace;
  const Sublayer f([&](const Tensor& h) {
    return torch::tanh(h.to(middle.scalar_type()).matmul(middle)).to(h.scalar_type());
  });
  State state = x;
  for (const auto& residual : stack)
    state =
        normalized
            ? State(residual
                        ->forward_normalized(state.total(), f, {.epsilon = 1e-5, .added = x}, trace)
                        .next)
            : residual->advance(state, f, trace);
  const auto out = state.total();
  auto loss = (out * cotangent).sum();
  if (trace.loss().defined()) loss = loss + 3 * trace.loss();
  loss.backward();
  Pass pass{{{"output", out.detach()}, {"dx", x.grad()}}};
  if (trace.loss().defined()) pass.tensors.emplace_back("auxiliary", trace.loss().detach());
  for (const auto& residual : stack)
    for (const auto& item : residual->named_parameters())
      if (item.value().grad().defined()) pass.tensors.emplace_back(item.key(), item.value().grad());
  return pass;
}

// Whether the connection leaves its branch pending for the next connection of a stack (State).
bool leaves_its_branch(const std::string& connection) {
  return connection == "additive" || connection == "ddl_pooled" || connection == "edelta";
}

struct GpuCase {
  torch::ScalarType dtype;
  std::string precision;
  double tolerance;
  int64_t width, length, streams = 4, depth = 1;
  bool normalized = false;  // forward_normalized() in place of advance()
};

void expect_forms_agree(const torch::Device& device, GpuCase c, const Connection& connection,
                        const nlohmann::json& options) {
  if (!takes_large_sizes()) {
    if (c.width > 520) return;
    c.length = std::min<int64_t>(c.length, c.width > 128 ? 3 : 9);
  }
  auto used = options.is_null() ? nlohmann::json::object() : options;
  // The implicit gradient is that of the limit, so the two forms agree only for a converged
  // iteration.
  if ((connection.name == "mhc" || used.value("mixer", "").starts_with("sinkhorn")) &&
      !used.contains("sinkhorn_gradient"))
    used["sinkhorn_gradient"] = "unrolled";
  // Each case has its own random numbers, so another connection or option does not change them.
  torch::manual_seed(std::hash<std::string>()(connection.name + options.dump()) % 1000);
  Stack stack;
  for (int64_t i = 0; i < c.depth; ++i) {
    const auto residual =
        connection.make({.width = c.width, .streams = c.streams, .index = i, .options = used});
    {
      torch::NoGradGuard
          no_grad;  // moves parameters away from initial values at which gradients vanish
      // A sum over more values is larger: perceptrons of wide states would saturate, and the
      // amplified rounding would make the comparison meaningless.
      const auto noise =
          0.1 * std::sqrt(128.0 / static_cast<double>(std::max<int64_t>(128, c.width)));
      for (const auto& parameter : residual->parameters())
        if (residual->manifold_parameters().empty())
          parameter.add_(noise * torch::randn_like(parameter));
    }
    residual->to(device, c.dtype);
    stack.push_back(residual);
  }
  const auto& traits = stack[0]->traits();
  auto shape = std::vector<int64_t>{3, c.length, traits.state_width};
  if (traits.layout == StreamLayout::expand)
    shape = {3, c.length, traits.streams, traits.state_width / traits.streams};
  const auto typed = torch::TensorOptions(c.dtype).device(device);
  const auto x = torch::randn(shape, typed), cotangent = torch::randn(shape, typed);
  const auto middle = torch::randn({traits.sublayer_width, traits.sublayer_width}, typed) /
                      std::sqrt(static_cast<double>(traits.sublayer_width));
  const auto run = [&](Form implementation, const std::string& of_products) {
    const ExecutionScope form(implementation);
    const ExecutionScope scope(precision_from(of_products));
    return pass_of(stack, x, of_products == "bf16" ? middle.to(torch::kBFloat16) : middle,
                   cotangent, c.normalized);
  };
  const auto fused = run(Form::fused, c.precision);
  const auto composed = run(Form::composed, "fp32");
  // In bfloat16 the two forms round at different points. Each has about the error of bfloat16
  // products; the composed form measures that error.
  const auto rounded = run(Form::composed, c.precision);
  ASSERT_EQ(fused.tensors.size(), composed.tensors.size());
  double largest = 0;
  for (const auto& [name, tensor] : composed.tensors)
    largest = std::max(largest, tensor.to(torch::kFloat64).norm().item<double>());
  const auto size_of = [&](size_t i) {
    return composed.tensors[i].second.to(torch::kFloat64).norm().item<double>();
  };
  const auto counts = [&](size_t i) {
    const auto numbers = composed.tensors[i].second.numel();
    // The gradient of a single scale or bias is a sum over all tokens that nearly cancels; only the
    // rounding of the products remains.
    if (c.precision == "bf16" && numbers == 1) return false;
    // Gradients of parameters with little effect are only rounding.
    return size_of(i) >= 1e-6 * std::sqrt(static_cast<double>(numbers));
  };
  // The composed form's rounding error of one small tensor may be small by chance; that of all
  // tensors together is not.
  double squares = 0, counted = 0;
  for (size_t i = 0; i < rounded.tensors.size(); ++i) {
    if (!counts(i)) continue;
    squares += std::pow(relative_error(rounded.tensors[i].second, composed.tensors[i].second), 2);
    ++counted;
  }
  const auto usual = std::sqrt(squares / std::max(counted, 1.0));
  // The rounding error of a gradient with few numbers, each a sum over all tokens, is random: such
  // gradients are compared together, by the mean of their squared errors.
  double few_squares = 0, few_rounding = 0, few = 0;
  std::string few_names;
  const auto where = fmt::format("{} {} {} width {} length {} ", connection.name, options.dump(),
                                 c.precision, c.width, c.length);
  for (size_t i = 0; i < fused.tensors.size(); ++i) {
    if (!counts(i)) continue;
    const auto& [name, wanted] = composed.tensors[i];
    // Rounded products cause errors proportional to the large gradients in the small ones, too.
    const auto small = c.precision == "bf16" ? std::max(1.0, 1e-2 * largest / size_of(i)) : 1.0;
    const auto error = relative_error(fused.tensors[i].second, wanted) / small;
    const auto rounding =
        std::max(usual, relative_error(rounded.tensors[i].second, wanted)) / small;
    if (c.precision == "bf16" && wanted.numel() < 32) {
      few_squares += error * error;
      few_rounding += rounding * rounding;
      few += 1;
      few_names += name + " ";
      continue;
    }
    EXPECT_LT(error, c.tolerance + 2.5 * rounding) << where << name;
  }
  if (few > 0) {
    EXPECT_LT(std::sqrt(few_squares / few), c.tolerance + 2.5 * std::sqrt(few_rounding / few))
        << where << few_names;
  }
}

void expect_forms_agree(const torch::Device& device, torch::ScalarType dtype,
                        const std::string& precision, double tolerance, int64_t width,
                        int64_t length, int64_t streams = 4, int64_t depth = 1) {
  for (const auto& connection : connections())
    for (const auto& options : connection.variants) {
      if (connection.name == "shc" && streams < 3) continue;  // needs three
      if (options.value("mixer", "") == "quaternions" && streams != 4) continue;
      if (depth > 1 && !leaves_its_branch(connection.name)) continue;
      expect_forms_agree(device, {dtype, precision, tolerance, width, length, streams, depth},
                         connection, options);
    }
}

TEST_F(Gpu, EveryConnectionFusedEqualsComposedInDouble) {
  expect_forms_agree(device_, torch::kFloat64, "fp32", 1e-9, 128, 9);
  expect_forms_agree(device_, torch::kFloat64, "fp32", 1e-9, 20, 7);
  expect_forms_agree(device_, torch::kFloat64, "fp32", 1e-9, 516, 5);
}

TEST_F(Gpu, EveryConnectionFusedEqualsComposedInFloat) {
  expect_forms_agree(device_, torch::kFloat32, "fp32", 2e-3, 128, 65);
  expect_forms_agree(device_, torch::kFloat32, "fp32", 2e-3, 20, 7);
  expect_forms_agree(device_, torch::kFloat32, "fp32", 2e-3, 64, 33, 2);
  expect_forms_agree(device_, torch::kFloat32, "fp32", 2e-3, 768, 33);
  expect_forms_agree(device_, torch::kFloat32, "fp32", 2e-3, 516, 3, 2);
}

// Fewer tokens average out less of the rounding, and more sublayers add to it.
TEST_F(Gpu, EveryConnectionFusedEqualsComposedWithProductsInBfloat16) {
  expect_forms_agree(device_, torch::kFloat32, "bf16", 1e-2, 128, 65);
  expect_forms_agree(device_, torch::kFloat32, "bf16", 2e-2, 512, 33);
  expect_forms_agree(device_, torch::kFloat32, "bf16", 2e-2, 64, 7, 2);
  expect_forms_agree(device_, torch::kFloat32, "bf16", 2e-2, 768, 65);
}

TEST_F(Gpu, StacksFusedEqualComposedInDouble) {
  expect_forms_agree(device_, torch::kFloat64, "fp32", 1e-9, 128, 9, 4, 3);
  expect_forms_agree(device_, torch::kFloat64, "fp32", 1e-9, 20, 7, 4, 3);
}

TEST_F(Gpu, StacksFusedEqualComposedInFloat) {
  expect_forms_agree(device_, torch::kFloat32, "fp32", 2e-3, 128, 65, 4, 3);
  expect_forms_agree(device_, torch::kFloat32, "fp32", 2e-3, 64, 33, 2, 3);
}

TEST_F(Gpu, StacksFusedEqualComposedWithProductsInBfloat16) {
  expect_forms_agree(device_, torch::kFloat32, "bf16", 4e-2, 128, 65, 4, 3);
}

// The kernels that compute all routes of a token: 16 or 32 tokens in a block.
TEST_F(Gpu, RoutesOfNarrowStreamsFusedEqualComposed) {
  const auto options_of = [](const char* text) { return nlohmann::json::parse(text); };
  const std::vector<std::pair<std::string, nlohmann::json>> all = {
      {"hc", options_of(R"({"norm_epsilon": 0.1})")},
      {"mhc", options_of(R"({"norm_epsilon": 0.1, "sinkhorn_iterations": 5})")},
      {"mhc", options_of(R"({"logit_bound": 0.5, "off_diagonal": -0.3})")},
      // Iterations that have converged.
      {"mhc", options_of(R"({"sinkhorn_gradient": "implicit", "sinkhorn_iterations": 100,
                             "off_diagonal": -1})")},
      {"mhc_lite", options_of("{}")},
      {"shc", options_of("{}")}};
  for (const auto& connection : connections())
    for (const auto& [name, options] : all)
      for (const int64_t width : {32, 64, 128})
        if (connection.name == name)
          expect_forms_agree(device_, {torch::kFloat32, "bf16", 2e-2, width, 37}, connection,
                             options);
  // The width of a state, not of its streams.
  for (const auto& connection : connections())
    for (const int64_t width : {128, 256, 512})
      if (connection.name == "edelta_stream")
        for (const auto& options : {options_of("{}"), options_of(R"({"gate_weight": 0.1})")})
          expect_forms_agree(device_, {torch::kFloat32, "bf16", 2e-2, width, 45}, connection,
                             options);
}

// The configurations of a recursive model: its mixers at its widths.
TEST_F(Gpu, ConnectionsOfRecursiveModelsFusedEqualComposed) {
  for (const auto& connection : connections()) {
    if (connection.name != "jpmhc" && connection.name != "edelta_stream" &&
        connection.name != "shc")
      continue;
    std::vector<nlohmann::json> variants = connection.variants;
    if (connection.name == "jpmhc")
      for (const auto* mixer :
           {"cayley", "cayley_exact", "sinkhorn", "identity", "sinkhorn_softmax"})
        variants.push_back({{"mixer", mixer}, {"bias", false}, {"read_norm", "none"}});
    if (connection.name == "edelta_stream")
      variants.push_back({{"pool", "token"},
                          {"gate_weight", 0.1},
                          {"generator_norm", "rms"},
                          {"read_norm", "none"},
                          {"start", "spread"}});
    if (connection.name == "shc") variants.push_back({{"read_norm", "none"}});
    for (const auto& options : variants)
      for (const int64_t width : {20, 512, 2048}) {  // of the state, but for sHC of a stream
        const auto length = width > 512 ? 17 : 33;
        for (const int64_t depth : {1, 2}) {
          expect_forms_agree(device_,
                             {torch::kFloat64, "fp32", 1e-9, width, length, 4, depth, true},
                             connection, options);
          expect_forms_agree(device_,
                             {torch::kFloat32, "fp32", 2e-3, width, length, 4, depth, true},
                             connection, options);
        }
        if (width >= 512)
          expect_forms_agree(device_, {torch::kFloat32, "bf16", 2e-2, width, 65, 4, 1, true},
                             connection, options);
      }
  }
}

// A bfloat16 state: with eight streams, softmax routes have no kernel and are composed.
TEST_F(Gpu, StatesInBfloat16AreCloseToTheirDefinition) {
  int64_t tried = 0;
  for (const auto& connection : connections()) {
    std::vector<nlohmann::json> variants = connection.variants;
    if (connection.name == "jpmhc")
      for (const auto* mixer : {"cayley", "cayley_exact", "sinkhorn", "sinkhorn_softmax"})
        variants.push_back({{"mixer", mixer}, {"bias", false}, {"read_norm", "none"}});
    if (connection.name == "edelta_stream")
      variants.push_back({{"pool", "token"},
                          {"generator_norm", "rms"},
                          {"read_norm", "none"},
                          {"start", "spread"},
                          {"gate_weight", 0.1}});
    for (auto options : variants) {
      if (options.is_null()) options = nlohmann::json::object();
      // The implicit gradient is that of the limit: before convergence the composed form has a
      // different one.
      if (connection.name == "mhc" || options.value("mixer", "").starts_with("sinkhorn"))
        options["sinkhorn_gradient"] = "unrolled";
      for (const int64_t width : {96, 520, 768, 1024})
        for (const int64_t streams : {2, 4, 8}) {
          if (!takes_large_sizes() && width > 96) continue;
          if (streams == 8 && connection.name == "mhc_lite") continue;  // 8! permutations
          if (streams == 2 && connection.name == "shc") continue;       // needs three
          if (streams != 4 && options.value("mixer", "") == "quaternions") continue;
          torch::manual_seed(7);
          const auto residual =
              connection.make({.width = width, .streams = streams, .options = options});
          if (!residual->supports_bf16_state()) continue;
          ++tried;
          {
            const torch::NoGradGuard no_grad;
            const auto noise = 1 / std::sqrt(static_cast<double>(residual->traits().state_width));
            if (residual->manifold_parameters().empty())
              for (const auto& parameter : residual->parameters())
                parameter.add_(noise * torch::randn_like(parameter));
          }
          residual->to(device_);
          const auto& traits = residual->traits();
          const int64_t length = takes_large_sizes() ? 65 : 9;
          auto shape = std::vector<int64_t>{2, length, traits.state_width};
          if (traits.layout == StreamLayout::expand)
            shape = {2, length, traits.streams, traits.state_width / traits.streams};
          const auto half = torch::randn(shape, device_).to(torch::kBFloat16),
                     cotangent = torch::randn(shape, device_).to(torch::kBFloat16);
          const auto middle =
              torch::randn({traits.sublayer_width, traits.sublayer_width}, device_) /
              std::sqrt(static_cast<double>(traits.sublayer_width));
          for (const bool normalized : {false, true}) {
            const auto run = [&](const Tensor& x, Form form, const char* precision) {
              const ExecutionScope scope(form);
              const ExecutionScope products(precision_from(precision));
              return pass_of({residual}, x, middle, cotangent.to(x.scalar_type()), normalized);
            };
            const auto kept = run(half, Form::fused, "bf16_state"),
                       exact = run(half.to(torch::kFloat32), Form::composed, "fp32");
            const auto where =
                fmt::format("{} {} width {} streams {} normalized {} ", connection.name,
                            options.dump(), width, streams, normalized);
            EXPECT_EQ(kept.tensors[0].second.scalar_type(), torch::kBFloat16) << where;
            EXPECT_EQ(kept.tensors[1].second.scalar_type(), torch::kBFloat16) << where;
            ASSERT_EQ(kept.tensors.size(), exact.tensors.size()) << where;
            for (size_t i = 0; i < exact.tensors.size(); ++i) {
              const auto& [name, wanted] = exact.tensors[i];
              // The gradients of few numbers are sums over all tokens that nearly cancel.
              if (i > 1 && wanted.numel() < 32) continue;
              EXPECT_LT(relative_error(kept.tensors[i].second, wanted), i < 2 ? 1e-2 : 5e-2)
                  << where << name;
            }
          }
        }
    }
  }
  EXPECT_GT(tried, takes_large_sizes() ? 60 : 15);
}

// Lengths around the number of tokens that a block takes at a time, 16 in double and 64 in float.
TEST_F(Gpu, OperatorsOfTokensFusedEqualComposed) {
  for (const auto& connection : connections())
    for (const auto* pool : {"causal", "token"})
      for (const auto* gate : {"plain", "entropy"})
        for (const int64_t length : {1, 16, 37, 64, 130}) {
          nlohmann::json options = {{"pool", pool}};
          if (connection.name == "edelta")
            options["gate"] = gate;
          else if (connection.name != "ddl_pooled" || gate == std::string("entropy"))
            continue;
          std::vector<GpuCase> cases = {{torch::kFloat64, "fp32", 1e-9, 128, length},
                                        {torch::kFloat64, "fp32", 1e-9, 20, length, 4, 2},
                                        {torch::kFloat32, "fp32", 2e-3, 128, length, 4, 2},
                                        {torch::kFloat32, "fp32", 2e-3, 40, length, 2},
                                        {torch::kFloat32, "fp32", 2e-3, 512, length},
                                        {torch::kFloat64, "fp32", 1e-9, 516, length, 4, 2},
                                        {torch::kFloat32, "fp32", 2e-3, 768, length, 4, 2}};
          if (length > 32)  // few tokens average out little of the rounding
            cases.push_back({torch::kFloat32, "bf16", 3e-2, 128, length, 4, 2}),
                cases.push_back({torch::kFloat32, "bf16", 3e-2, 768, length, 4, 2});
          for (const auto& c : cases) expect_forms_agree(device_, c, connection, options);
        }
}

}  // namespace
}  // namespace geores
