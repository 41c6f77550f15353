#include "geores/python/connections.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "geores/base/error.h"
#include "geores/ops/run/execution.h"
#include "geores/ops/run/on_gpu.h"
#include "geores/python/connector.h"

namespace geores::python {
namespace {

using nlohmann::json;

bool is_half(at::ScalarType type) { return type == torch::kBFloat16 || type == torch::kHalf; }

// Refuses tensors that do not fit the connection; sizes may be symbols. Texts are made for
// refusals alone: a call must cost little.
void check(const Connector& connector, const Tensor& x, at::TensorList state) {
  const auto& traits = connector.traits();
  const auto& name = connector.name();
  const bool expand = traits.layout == StreamLayout::expand;
  const auto sizes = x.sym_sizes();
  const bool fits =
      expand ? sizes.size() == 4 && sizes[2] == traits.streams && sizes[3] == traits.sublayer_width
             : sizes.size() == 3 && sizes[2] == traits.state_width;
  if (!fits)
    fail(name, "x must be (B, T, {}), got {}",
         expand ? fmt::format("{}, {}", traits.streams, traits.sublayer_width)
                : std::to_string(traits.state_width),
         text_of(sizes));
  if (!at::isFloatingType(x.scalar_type()))
    fail(name, "x must have a floating-point type, got {}", c10::toString(x.scalar_type()));
  require(state.size() == connector.state_size(), name, "expects {} parameters and buffers, got {}",
          connector.state_size(), state.size());
  for (size_t i = 0; i < connector.parameter_count(); ++i) {
    const auto& parameter = state[i];
    if (parameter.device() != x.device())
      fail(name, "x is on {}, the parameters are on {}", x.device().str(),
           parameter.device().str());
    const bool is_double = parameter.scalar_type() == torch::kFloat64;
    if (is_double != (x.scalar_type() == torch::kFloat64))
      fail(name, "x is {}, the parameters are {}: convert one of them",
           c10::toString(x.scalar_type()), c10::toString(parameter.scalar_type()));
  }
}

void check_output(const Connector& connector, const Tensor& x, const Tensor& f) {
  const auto width = connector.traits().sublayer_width;
  const auto sizes = f.sym_sizes(), of_x = x.sym_sizes();
  if (sizes.size() != 3 || sizes[0] != of_x[0] || sizes[1] != of_x[1] || sizes[2] != width)
    fail(connector.name(), "the sublayer's output must be {}, got {}",
         text_of({of_x[0], of_x[1], width}), text_of(sizes));
  if (f.device() != x.device())
    fail(connector.name(), "x is on {}, the sublayer's output is on {}", x.device().str(),
         f.device().str());
}

// Borrows an instance and binds it to the tensors of a call. Its parameters then are leaves of the
// call's own graph.
class Bound {
 public:
  Bound(Connector& connector, const Tensor& x, at::TensorList state)
      : connector_(connector), instance_(connector.take()), given_(state.vec()) {
    type_ = x.scalar_type() == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32;
    bind();
    Execution wanted;
    if (x.scalar_type() == torch::kBFloat16) {
      wanted.precision = Precision::bf16_state;
      const ExecutionScope scope(wanted);
      half_state_ = on_gpu(x) && instance_.residual->supports_bf16_state();
    }
    scope_.emplace(half_state_ ? wanted : Execution());
  }

  ~Bound() {
    const torch::NoGradGuard no_gradients;
    scope_.reset();
    // The caller's memory is not held until the next call.
    for (auto* tensors : {&instance_.parameters, &instance_.buffers})
      for (auto& tensor : *tensors) tensor.set_data(torch::empty({0}, tensor.options()));
    connector_.give_back(std::move(instance_));
  }
  Bound(const Bound&) = delete;
  Bound& operator=(const Bound&) = delete;

  // In the type in which the connection computes.
  Tensor input(const Tensor& x) const { return (half_state_ ? x : x.to(type_)).contiguous(); }
  Tensor output_of_sublayer(const Tensor& f) const {
    return (half_state_ ? f : f.to(type_)).contiguous();
  }

  // u, and the auxiliary loss if there is one.
  std::pair<Tensor, Tensor> read(const Tensor& x) {
    Tensor u;
    Trace trace;
    try {
      instance_.residual->forward(
          x,
          [&u](const Tensor& input) -> Tensor {
            u = input;
            throw AtSublayer();
          },
          trace);
    } catch (const AtSublayer&) {
    }
    return {u, trace.loss()};
  }

  Tensor write(const Tensor& x, const Tensor& f, Trace& trace) {
    return instance_.residual->forward(
        x, [&f](const Tensor&) { return f; }, trace);
  }

  Residual& residual() { return *instance_.residual; }
  Tensors& parameters() { return instance_.parameters; }
  Tensors& buffers() { return instance_.buffers; }

 private:
  void bind() {
    const torch::NoGradGuard no_gradients;
    const auto& p = instance_.parameters;
    for (size_t i = 0; i < given_.size(); ++i) {
      auto tensor = (i < p.size() ? p[i] : instance_.buffers[i - p.size()]);
      auto value = given_[i].detach();
      if (is_half(value.scalar_type())) value = value.to(type_);
      tensor.set_data(value.contiguous());
    }
  }

  Connector& connector_;
  Instance instance_;
  Tensors given_;
  at::ScalarType type_;
  bool half_state_ = false;
  std::optional<ExecutionScope> scope_;
};

Tensor in_type_of(const Tensor& value, const Tensor& like) { return value.to(like.scalar_type()); }

// The gradients of `outputs` for those leaves that are needed, in the types of the inputs.
Tensors gradients_of(const Tensors& outputs, const Tensors& gradients, const Tensors& leaves,
                     const Tensors& inputs, const c10::List<bool>& needed) {
  Tensors wanted, differentiable, with;
  for (size_t i = 0; i < leaves.size(); ++i)
    if (needed[i]) wanted.push_back(leaves[i]);
  for (size_t i = 0; i < outputs.size(); ++i)
    if (outputs[i].requires_grad()) {
      differentiable.push_back(outputs[i]);
      with.push_back(in_type_of(gradients[i], outputs[i]).contiguous());
    }
  Tensors found(wanted.size());
  if (!differentiable.empty() && !wanted.empty())
    found = torch::autograd::grad(differentiable, wanted, with, /*retain_graph=*/false,
                                  /*create_graph=*/false, /*allow_unused=*/true);
  Tensors results;
  size_t next = 0;
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (!needed[i]) continue;
    const auto& gradient = found[next++];
    results.push_back(gradient.defined() ? in_type_of(gradient, inputs[i])
                                         : torch::zeros_like(inputs[i]));
  }
  return results;
}

Tensors zeros_for(const Tensors& inputs, const c10::List<bool>& needed) {
  Tensors zeros;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (needed[i]) zeros.push_back(torch::zeros_like(inputs[i]));
  return zeros;
}

Tensors joined(Tensors front, at::TensorList back) {
  front.insert(front.end(), back.begin(), back.end());
  return front;
}

Tensor leaf(const Tensor& x, bool needed) { return x.detach().requires_grad_(needed); }

// Parameters as leaves, then buffers, which have no gradients.
Tensors state_leaves(Bound& bound, const c10::List<bool>& needed, size_t first) {
  Tensors leaves;
  for (auto& parameter : bound.parameters())
    leaves.push_back(parameter.requires_grad_(needed[first++]));
  return joined(leaves, bound.buffers());
}

}  // namespace

std::string list_connections() {
  json all = json::array();
  for (const auto& connection : connections()) {
    json options = json::array();
    for (const auto& option : connection.options)
      options.push_back({{"name", option.key},
                         {"help", option.help},
                         {"default", option.default_text},
                         {"choices", option.choices}});
    all.push_back({{"name", connection.name},
                   {"summary", connection.summary},
                   {"paper", connection.paper},
                   {"variants", connection.variants},
                   {"options", options}});
  }
  return all.dump();
}

std::string describe(const std::string& connection) {
  return Connector::of(connection).description().dump();
}

Tensors draw_state(const std::string& connection, int64_t seed) {
  const auto instance = Connector::of(connection).make(static_cast<uint64_t>(seed));
  Tensors state;
  for (const auto& tensor : joined(instance.parameters, instance.buffers))
    state.push_back(tensor.detach().clone());
  return state;
}

Tensors read(const Tensor& x, at::TensorList state, const std::string& connection) {
  auto& connector = Connector::of(connection);
  check(connector, x, state);
  if (x.numel() == 0) {
    auto results = read_shape(x, state, connection);
    for (auto& result : results) result.zero_();
    return results;
  }
  const c10::DeviceGuard guard(x.device());
  Bound bound(connector, x, state);
  const auto [u, loss] = bound.read(bound.input(x));
  if (!connector.has_loss()) return {in_type_of(u, x)};
  return {in_type_of(u, x), loss};
}

Tensors read_shape(const Tensor& x, at::TensorList state, const std::string& connection) {
  const auto& connector = Connector::of(connection);
  check(connector, x, state);
  auto sizes = sizes_of(x);
  sizes.resize(2);
  sizes.push_back(connector.traits().sublayer_width);
  const auto u = empty_of(x, sizes);
  if (!connector.has_loss()) return {u};
  const auto type = x.scalar_type() == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32;
  return {u, torch::empty({}, x.options().dtype(type))};
}

Tensors read_backward(at::TensorList gradients, c10::List<bool> needed, const Tensor& x,
                      at::TensorList state, const std::string& connection) {
  auto& connector = Connector::of(connection);
  const auto inputs = joined({x}, state);
  if (x.numel() == 0) return zeros_for(inputs, needed);
  const c10::DeviceGuard guard(x.device());
  Bound bound(connector, x, state);
  const auto x_leaf = leaf(bound.input(x), needed[0]);
  const auto leaves = joined({x_leaf}, state_leaves(bound, needed, 1));
  const auto [u, loss] = bound.read(x_leaf);
  const Tensors outputs = connector.has_loss() ? Tensors{u, loss} : Tensors{u};
  return gradients_of(outputs, gradients.vec(), leaves, inputs, needed);
}

Tensor write(const Tensor& x, const Tensor& f, at::TensorList state,
             const std::string& connection) {
  auto& connector = Connector::of(connection);
  check(connector, x, state);
  check_output(connector, x, f);
  if (x.numel() == 0) return torch::zeros_like(x);
  const c10::DeviceGuard guard(x.device());
  Bound bound(connector, x, state);
  Trace trace;
  return in_type_of(bound.write(bound.input(x), bound.output_of_sublayer(f), trace), x);
}

Tensor write_shape(const Tensor& x, const Tensor& f, at::TensorList state,
                   const std::string& connection) {
  const auto& connector = Connector::of(connection);
  check(connector, x, state);
  check_output(connector, x, f);
  return like(x);
}

Tensors write_backward(at::TensorList gradients, c10::List<bool> needed, const Tensor& x,
                       const Tensor& f, at::TensorList state, const std::string& connection) {
  auto& connector = Connector::of(connection);
  const auto inputs = joined({x, f}, state);
  if (x.numel() == 0) return zeros_for(inputs, needed);
  const c10::DeviceGuard guard(x.device());
  Bound bound(connector, x, state);
  const auto x_leaf = leaf(bound.input(x), needed[0]);
  const auto f_leaf = leaf(bound.output_of_sublayer(f), needed[1]);
  const auto leaves = joined({x_leaf, f_leaf}, state_leaves(bound, needed, 2));
  Trace trace;
  const auto out = bound.write(x_leaf, f_leaf, trace);
  return gradients_of({out}, gradients.vec(), leaves, inputs, needed);
}

c10::Dict<std::string, Tensor> probes(const Tensor& x, const Tensor& f, at::TensorList state,
                                      const std::string& connection) {
  auto& connector = Connector::of(connection);
  check(connector, x, state);
  check_output(connector, x, f);
  const torch::NoGradGuard no_gradients;
  const c10::DeviceGuard guard(x.device());
  Bound bound(connector, x, state);
  Trace trace(/*probing=*/true);
  bound.write(bound.input(x), bound.output_of_sublayer(f), trace);
  c10::Dict<std::string, Tensor> all;
  for (const auto& [name, value] : trace.probes()) all.insert(name, value.clone());
  return all;
}

Tensors manifold_step(at::TensorList state, at::TensorList gradients,
                      const std::string& connection) {
  auto& connector = Connector::of(connection);
  require(!state.empty(), connector.name(), "has no state to step");
  const torch::NoGradGuard no_gradients;
  const c10::DeviceGuard guard(state[0].device());
  Tensors copies;
  for (const auto& tensor : state) copies.push_back(tensor.detach().clone());
  Bound bound(connector, state[0], copies);
  auto& parameters = bound.parameters();
  for (size_t i = 0; i < parameters.size() && i < gradients.size(); ++i)
    if (gradients[i].numel() > 0) parameters[i].mutable_grad() = gradients[i];
  bound.residual().manifold_step();
  for (auto& parameter : parameters) parameter.mutable_grad() = Tensor();
  Tensors results;
  for (const auto& tensor : joined(parameters, bound.buffers()))
    results.push_back(tensor.detach().clone());
  return results;
}

}  // namespace geores::python
