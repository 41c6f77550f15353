// The contract of every registered connection, independent of its paper: see residual.h.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "geores/base/error.h"
#include "geores/ops/run/fused_check_test.h"
#include "geores/ops/streams/streams.h"
#include "geores/residual/registry.h"
#include "geores/residual/routed_connection.h"
#include "geores/storage/state_file.h"
#include "geores/testing/gradient_check.h"

namespace geores {
namespace {

constexpr int64_t kBatch = 3, kWidth = 24;

struct Case {
  const Connection* connection;
  nlohmann::json options;
  int64_t streams, length;
};

std::string name_of(const testing::TestParamInfo<Case>& info) {
  auto name = info.param.connection->name;
  for (const auto& [key, value] : info.param.options.items())
    name += "_" + key + "_" + (value.is_string() ? value.get<std::string>() : value.dump());
  name += fmt::format("_n{}_T{}", info.param.streams, info.param.length);
  for (auto& letter : name)
    if (!std::isalnum(static_cast<unsigned char>(letter))) letter = '_';
  return name;
}

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.connection->name << " " << c.options.dump() << " n=" << c.streams << " T=" << c.length;
}

std::shared_ptr<Residual> make(const Case& c) {
  return c.connection->make({.width = kWidth, .streams = c.streams, .options = c.options});
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const auto& connection : connections())
    for (const auto& options : connection.variants)
      for (const int64_t streams : {2, 3, 4, 8})
        for (const int64_t length : {1, 7, 9}) {
          // An emulated GPU is slow: one number for each of its tables (kernels/sizes.h).
          if (emulates_gpu() && (length != 7 || streams == 3)) continue;
          const Case c{&connection, options, streams, length};
          try {
            const auto residual = make(c);
            const auto whole = residual->traits().layout == StreamLayout::whole;
            if (whole && streams != 4)
              continue;  // the number of streams does not affect layout whole
          } catch (const Error&) {
            // Only the documented connections may refuse a number of streams.
            if (connection.name == "mhc_lite" && streams > 6) continue;
            if (connection.name == "isometry" && streams % 2 == 1) continue;
            if (options.is_object() && options.value("mixer", "") == "quaternions" && streams != 4)
              continue;
            throw;
          }
          cases.push_back(c);
        }
  return cases;
}

// A sublayer with a memory, like attention: causal, smooth, and different at every position.
class TestSublayer {
 public:
  explicit TestSublayer(int64_t width)
      : now_(0.5 * torch::randn({width, width}, torch::kFloat64)),
        past_(0.5 * torch::randn({width, width}, torch::kFloat64)) {}

  Tensor operator()(const Tensor& h) const {
    EXPECT_EQ(h.dim(), 3);
    EXPECT_EQ(h.size(-1), now_.size(0)) << "the sublayer must see its declared width";
    const auto steps = torch::arange(1, h.size(1) + 1, h.options()).view({-1, 1});
    return h.matmul(now_.to(h.dtype())) +
           torch::tanh(h.cumsum(1) / steps).matmul(past_.to(h.dtype()));
  }

 private:
  Tensor now_, past_;
};

// Moves every parameter away from its special initial value, to a scale without saturation.
// (Sinkhorn's implicit gradient is that of the converged matrix, so the iteration must converge.)
void randomize(Residual& residual) {
  torch::NoGradGuard no_grad;
  for (const auto& item : residual.named_parameters()) {
    const auto& value = item.value();
    const auto norm = item.key().find("norm") != std::string::npos ||
                      item.key().find("rms_weight") != std::string::npos;
    const auto fan_in = std::max<double>(4.0, value.dim() >= 2 ? value.size(-1) : 1);
    value.normal_(norm ? 1.0 : 0.0, norm ? 0.2 : 0.5 / std::sqrt(fan_in));
  }
}

void copy_parameters(const Residual& from, Residual& to) {
  torch::NoGradGuard no_grad;
  auto target = to.named_parameters();
  for (const auto& item : from.named_parameters()) target[item.key()].copy_(item.value());
  auto buffers = to.named_buffers();
  for (const auto& item : from.named_buffers()) buffers[item.key()].copy_(item.value());
}

class Contract : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    torch::manual_seed(7);
    residual_ = make(GetParam());
    residual_->to(torch::kFloat64);
    traits_ = residual_->traits();
    sublayer_ = std::make_unique<TestSublayer>(traits_.sublayer_width);
    x_ = random_state();
  }

  Tensor random_state() const {
    const auto length = GetParam().length;
    const auto x = torch::randn({kBatch, length, traits_.state_width}, torch::kFloat64);
    return traits_.layout == StreamLayout::expand ? split_streams(x, traits_.streams) : x;
  }

  Tensor forward(const Tensor& x) const {
    Trace trace;
    return residual_->forward(x, *sublayer_, trace);
  }

  // Output, what the next connection reads with, and auxiliary loss in one vector, so that a random cotangent weighs both.
  Tensor everything(Residual& residual, const Tensor& x) const {
    Trace trace;
    std::vector<Tensor> parts;
    if (traits_.reads_late) {
      const auto state = residual.advance(x, *sublayer_, trace);
      parts = {state.total().flatten(), state.read.flatten()};
    } else {
      parts = {residual.forward(x, *sublayer_, trace).flatten()};
    }
    if (trace.loss().defined()) parts.push_back(trace.loss().view({1}));
    return torch::cat(parts);
  }

  // The probe "operator"; undefined if the connection has none.
  Tensor probed_operator(const Tensor& x, const Sublayer& f) const {
    Trace trace(/*probing=*/true);
    residual_->forward(x, f, trace);
    for (const auto& [name, tensor] : trace.probes())
      if (name == "operator") return tensor;
    return {};
  }

  // R x, by the probed operator R.
  Tensor carried(const Tensor& r, const Tensor& x) const {
    if (traits_.axis == OperatorAxis::streams)
      return traits_.layout == StreamLayout::split
                 ? join_streams(mix_streams(r, split_streams(x, traits_.streams)))
                 : (traits_.layout == StreamLayout::expand ? mix_streams(r, x) : x * r.squeeze(-1));
    return traits_.layout == StreamLayout::expand ? x.matmul(r.transpose(-1, -2))
                                                  : r.matmul(x.unsqueeze(-1)).squeeze(-1);
  }

  std::shared_ptr<Residual> residual_;
  Traits traits_;
  std::unique_ptr<TestSublayer> sublayer_;
  Tensor x_;
};

double largest(const Tensor& x) { return x.abs().max().item<double>(); }

double distance_from_orthogonal(const Tensor& r) {
  return largest(r.transpose(-1, -2).matmul(r) - torch::eye(r.size(-1), r.options()));
}

TEST_P(Contract, KeepsTheShapeOfTheState) {
  for (const auto dtype : {torch::kFloat64, torch::kFloat32}) {
    residual_->to(dtype);
    const auto x = x_.to(dtype), out = forward(x);
    EXPECT_EQ(out.sizes(), x.sizes());
    EXPECT_EQ(out.scalar_type(), dtype);
    EXPECT_TRUE(torch::isfinite(out).all().item<bool>());
  }
}

TEST_P(Contract, GradientsEqualFiniteDifferences) {
  randomize(*residual_);
  x_.requires_grad_(true);
  std::vector<std::pair<std::string, Tensor>> inputs = {{"x", x_}};
  for (const auto& item : residual_->named_parameters())
    inputs.emplace_back(item.key(), item.value());
  const auto check = check_gradients([&] { return everything(*residual_, x_); }, inputs);
  EXPECT_LT(check.error, 1e-7) << check.worst;
}

TEST_P(Contract, AddsABranchThatTheConnectionBeforeHasLeft) {
  randomize(*residual_);
  x_.requires_grad_(true);
  const auto branch = torch::randn_like(x_).requires_grad_(true);
  const auto cotangent = torch::randn_like(x_);
  auto inputs = residual_->parameters();
  inputs.insert(inputs.end(), {x_, branch});
  // Output and gradients.
  const auto run = [&](const State& state) {
    Trace trace;
    const auto out = residual_->advance(state, *sublayer_, trace).total();
    auto results = torch::autograd::grad({(out * cotangent).sum()}, inputs, {}, {}, false,
                                         /*allow_unused=*/true);
    results.push_back(out.detach());
    return results;
  };
  const auto left = run({x_, branch}), added = run(x_ + branch);
  for (size_t i = 0; i < added.size(); ++i) {
    ASSERT_EQ(left[i].defined(), added[i].defined()) << i;
    if (!added[i].defined()) continue;
    EXPECT_LT(largest(left[i] - added[i]), 1e-12 * std::max(1.0, largest(added[i]))) << i;
  }
}

// In a stack a connection may leave its branch, or the write to its streams, to the next one.
TEST_P(Contract, AStackOfAdvancesIsAStackOfForwards) {
  randomize(*residual_);
  x_.requires_grad_(true);
  auto inputs = residual_->parameters();
  inputs.push_back(x_);
  const auto cotangent = torch::randn_like(x_);
  const auto results = [&](const Tensor& out) {
    auto all = torch::autograd::grad({(out * cotangent).sum()}, inputs, {}, {}, false,
                                     /*allow_unused=*/true);
    all.push_back(out.detach());
    return all;
  };
  Trace trace;
  const auto first = residual_->advance(x_, *sublayer_, trace);
  if (traits_.reads_late) {
    const auto late = residual_->advance(first, *sublayer_, trace).total();
    EXPECT_FALSE(torch::allclose(late, forward(forward(x_))))
        << "the second reads as the first says";
    const State same(first.total(), {}, nullptr, first.read);
    EXPECT_TRUE(torch::equal(late, residual_->advance(same, *sublayer_, trace).total()));
    return;
  }
  const auto stack = results(residual_->advance(first, *sublayer_, trace).total()),
             separate = results(forward(forward(x_)));
  for (size_t i = 0; i < separate.size(); ++i) {
    ASSERT_EQ(stack[i].defined(), separate[i].defined()) << i;
    if (!separate[i].defined()) continue;
    EXPECT_TRUE(torch::equal(stack[i], separate[i])) << i;
  }
  if (std::dynamic_pointer_cast<RoutedConnection>(residual_)) {
    EXPECT_TRUE(first.write) << "routed connections leave their write";
    const torch::NoGradGuard no_gradient;
    EXPECT_FALSE(residual_->advance(x_, *sublayer_, trace).write) << "which holds the old state";
  }
}

TEST_P(Contract, NormalizesAllValuesOfATokenBehindItsForward) {
  randomize(*residual_);
  constexpr double kEpsilon = 1e-2;
  Trace trace, same;
  const auto added = random_state(), out = residual_->forward(x_, *sublayer_, trace).flatten(2);
  const auto [state, next, product] =
      residual_->forward_normalized(x_, *sublayer_, {.epsilon = kEpsilon, .added = added}, same);
  ASSERT_EQ(state.sizes(), x_.sizes());
  ASSERT_EQ(next.sizes(), x_.sizes());
  const auto wanted = out / (out.square().mean(-1, /*keepdim=*/true) + kEpsilon).sqrt();
  EXPECT_LT(largest(state.flatten(2) - wanted), 1e-12);
  EXPECT_LT(largest((next - added).flatten(2) - wanted), 1e-12);
  EXPECT_FALSE(product.defined());
  EXPECT_EQ(same.loss().defined(), trace.loss().defined());
}

TEST_P(Contract, Float32FollowsFloat64) {
  randomize(*residual_);
  const auto single = make(GetParam());
  copy_parameters(*residual_, *single);
  copy_parameters(*single, *residual_);  // the same values, rounded to float32, in both
  x_ = x_.to(torch::kFloat32).to(torch::kFloat64);

  const auto wide = everything(*residual_, x_);
  const auto cotangent = torch::randn_like(wide);
  (wide * cotangent).sum().backward();
  const auto narrow = everything(*single, x_.to(torch::kFloat32));
  (narrow * cotangent.to(torch::kFloat32)).sum().backward();

  EXPECT_LT(largest(narrow.to(torch::kFloat64) - wide), 1e-4 * largest(wide));
  double gradient_scale = 0;
  for (const auto& parameter : residual_->parameters())
    if (parameter.grad().defined())
      gradient_scale = std::max(gradient_scale, largest(parameter.grad()));
  const auto narrow_parameters = single->named_parameters();
  for (const auto& item : residual_->named_parameters()) {
    ASSERT_EQ(item.value().grad().defined(), narrow_parameters[item.key()].grad().defined());
    const auto difference =
        narrow_parameters[item.key()].grad().to(torch::kFloat64) - item.value().grad();
    EXPECT_LT(largest(difference), 1e-3 * gradient_scale) << item.key();
  }
}

TEST_P(Contract, IsCausalExactlyWhenItSaysSo) {
  randomize(*residual_);
  const auto before = forward(x_);
  for (int64_t t = 0; t < GetParam().length; ++t) {
    auto changed = x_.clone();
    // A random change, not a constant one, which a LayerNorm before a generator would remove.
    changed.select(1, t) += torch::randn_like(changed.select(1, t));
    const auto after = forward(changed);
    EXPECT_GT(largest((after - before).select(1, t)), 1e-9) << "position " << t << " sees itself";
    if (t == 0) continue;
    const auto difference = largest((after - before).slice(1, 0, t));
    if (traits_.causal)
      EXPECT_EQ(difference, 0.0) << "position " << t << " acts on earlier ones";
    else
      EXPECT_GT(difference, 1e-9) << "position " << t << " does not act on earlier ones";
  }
}

TEST_P(Contract, OneTokenAtATimeGivesWhatForwardGives) {
  randomize(*residual_);
  const auto now =
      0.5 * torch::randn({traits_.sublayer_width, traits_.sublayer_width}, torch::kFloat64);
  const auto mapped = [](const Tensor& map, const Tensor& h) {
    return map.defined() ? h.matmul(map.t()) : h;
  };
  torch::NoGradGuard no_grad;
  for (const int64_t batch : {1, 3, 5})
    for (const auto dtype : {torch::kFloat64, torch::kFloat32}) {
      residual_->to(dtype);
      const auto step = residual_->token_step(batch);
      if (!step) {
        const auto promised = GetParam().connection->has_token_step;
        EXPECT_FALSE(promised && promised(GetParam().options, GetParam().streams));
        return;
      }
      Trace trace;
      const auto x = torch::cat({x_, x_.flip(0)}).slice(0, 0, batch).to(dtype);
      const auto f = [&](const Tensor& h) { return torch::tanh(h.matmul(now.to(dtype))); };
      const auto expected = residual_->forward(x, f, trace).flatten(2);
      for (int64_t t = 0; t < x.size(1); ++t) {
        auto state = x.select(1, t).flatten(1).clone();
        const auto read = mapped(residual_->pre(), step->read(state));
        step->write(mapped(residual_->post(), f(read)).contiguous(), state);
        EXPECT_LT(largest(state - expected.select(1, t)), dtype == torch::kFloat64 ? 1e-12 : 1e-4)
            << "batch " << batch << " position " << t;
      }
    }
}

TEST_P(Contract, EquivariantUnderBatchOrder) {
  randomize(*residual_);
  const auto order = torch::tensor({2, 0, 1});
  EXPECT_LT(largest(forward(x_.index_select(0, order)) - forward(x_).index_select(0, order)),
            1e-12);
}

TEST_P(Contract, ProbedOperatorIsTheMapWithASilentSublayer) {
  randomize(*residual_);
  const Sublayer silent = [](const Tensor& h) { return torch::zeros_like(h); };
  const auto r = probed_operator(x_, silent);
  if (!r.defined()) {
    EXPECT_FALSE(traits_.orthogonal);  // a residual path that is not linear cannot be orthogonal
    return;
  }
  Trace trace;
  const auto out = residual_->forward(x_, silent, trace);
  EXPECT_LT(largest(out - carried(r, x_)), 1e-12);
}

TEST_P(Contract, OperatorIsOrthogonalExactlyWhenItSaysSo) {
  randomize(*residual_);
  const auto r = probed_operator(x_, *sublayer_);
  if (!r.defined()) return;
  if (traits_.orthogonal)
    EXPECT_LT(distance_from_orthogonal(r), 1e-12);
  else
    EXPECT_GT(distance_from_orthogonal(r), 1e-6);
}

TEST_P(Contract, StartsAsItSays) {
  const auto r = probed_operator(x_, *sublayer_);
  if (!r.defined()) {
    EXPECT_EQ(traits_.initial_map, InitialMap::other);
    return;
  }
  const auto difference = r - torch::eye(r.size(-1), r.options());
  const auto norm = torch::linalg_matrix_norm(difference, 2).max().item<double>();
  switch (traits_.initial_map) {
    case InitialMap::identity:
      EXPECT_LT(norm, 1e-14);
      break;
    case InitialMap::near_identity:
      EXPECT_GT(norm, 1e-14);
      EXPECT_LT(norm, 0.05);
      break;
    case InitialMap::other:
      EXPECT_GT(norm, 1e-6);
      break;
  }
}

TEST_P(Contract, GradientReachesEveryParameterAtTheStart) {
  const auto out = everything(*residual_, x_);
  (out * torch::randn_like(out)).sum().backward();
  const auto& silent = GetParam().connection->silent_at_start;
  for (const auto& item : residual_->named_parameters()) {
    ASSERT_TRUE(item.value().grad().defined()) << item.key();
    const auto gradient = largest(item.value().grad());
    if (std::find(silent.begin(), silent.end(), item.key()) != silent.end())
      EXPECT_LT(gradient, 1e-12) << item.key() << " is documented as silent at the start";
    else
      EXPECT_GT(gradient, 0.0) << item.key();
  }
}

TEST_P(Contract, SaveAndLoadAreBitExact) {
  for (const auto dtype : {torch::kFloat32, torch::kFloat64}) {
    const auto saved = make(GetParam());
    saved->to(dtype);
    randomize(*saved);
    SafetensorsWriter writer;
    add_state(writer, *saved, "residual.");
    const auto file = Safetensors::parse(writer.serialize(), "memory");

    const auto loaded = make(GetParam());
    loaded->to(dtype);
    load_state(*loaded, file, "memory", "residual.");
    const auto x = x_.to(dtype);
    Trace first, second;
    EXPECT_TRUE(
        torch::equal(saved->forward(x, *sublayer_, first), loaded->forward(x, *sublayer_, second)));
    SafetensorsWriter again;
    add_state(again, *loaded, "residual.");
    EXPECT_EQ(writer.serialize(), again.serialize());
  }
}

INSTANTIATE_TEST_SUITE_P(AllConnections, Contract, testing::ValuesIn(all_cases()), name_of);

}  // namespace
}  // namespace geores
