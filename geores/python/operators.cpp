#include "geores/python/operators.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>

#include <map>
#include <optional>

namespace geores::python {
namespace {

using c10::DispatchKey;
using c10::DispatchKeySet;
using c10::OperatorHandle;
using torch::autograd::AutogradContext;
using torch::jit::Stack;

struct Definition {
  c10::KernelFunction compute, backward;
};

// By the name of the operator, "geores::gelu". Written while the library is loaded, then only read.
std::map<std::string, Definition>& definitions() {
  static std::map<std::string, Definition> all;
  return all;
}

const std::string kBackward = "_backward";

bool holds_tensor(const c10::TypePtr& type) {
  if (const auto optional = type->cast<c10::OptionalType>())
    return holds_tensor(optional->getElementType());
  return type->kind() == c10::TypeKind::TensorType;
}

bool holds_tensors(const c10::TypePtr& type) {
  const auto list = type->cast<c10::ListType>();
  return list && list->getElementType()->kind() == c10::TypeKind::TensorType;
}

// Calls f(Tensor&) for every tensor among the arguments, undefined for a None. The arguments of the
// schema from `first` on are those from `values` on.
template <class F>
void for_each_tensor(const c10::FunctionSchema& schema, size_t first, c10::IValue* values, F&& f) {
  const auto& arguments = schema.arguments();
  for (size_t i = first; i < arguments.size(); ++i) {
    auto& value = values[i - first];
    if (holds_tensor(arguments[i].type())) {
      auto tensor = value.isNone() ? Tensor() : value.toTensor();
      f(tensor);
      value = tensor.defined() ? c10::IValue(tensor) : c10::IValue();
    } else if (holds_tensors(arguments[i].type())) {
      auto tensors = value.toTensorVector();
      for (auto& tensor : tensors) f(tensor);
      value = tensors;
    }
  }
}

Tensors tensors_of(const c10::FunctionSchema& schema, size_t first, c10::IValue* values) {
  Tensors all;
  for_each_tensor(schema, first, values, [&](const Tensor& tensor) { all.push_back(tensor); });
  return all;
}

c10::IValue* arguments_on(Stack& stack, const OperatorHandle& op) {
  return stack.data() + (stack.size() - op.schema().arguments().size());
}

Stack take_arguments(Stack* stack, const OperatorHandle& op) {
  return torch::jit::pop(*stack, op.schema().arguments().size());
}

Tensors results_of(const Stack& stack) {
  Tensors all;
  for (const auto& value : stack) {
    if (value.isTensor())
      all.push_back(value.toTensor());
    else
      for (const auto& tensor : value.toTensorVector()) all.push_back(tensor);
  }
  return all;
}

// The results as the schema has them: tensors, or one list of tensors.
void push_results(Stack* stack, const OperatorHandle& op, const Tensors& results) {
  const auto& returns = op.schema().returns();
  if (returns.size() == 1 && holds_tensors(returns[0].type()))
    stack->emplace_back(results);
  else
    for (const auto& result : results) stack->emplace_back(result);
}

// A kernel of a backend runs below autograd; this scope is a thread's usual state again, with
// autograd and without autocast.
class UsualState {
 public:
  UsualState()
      : guard_([] {
          c10::impl::PODLocalDispatchKeySet usual;
          usual.set_included(c10::default_included_set);
          usual.set_excluded(c10::default_excluded_set);
          return c10::impl::LocalDispatchKeySet(usual);
        }()) {}

 private:
  c10::impl::ForceDispatchKeyGuard guard_;
};

// Whether the tensors are LibTorch's own and nothing looks at the operators that run on them.
bool is_eager(const Tensors& tensors) {
  if (c10::impl::dispatch_mode_enabled()) return false;
  constexpr DispatchKeySet watched(
      {DispatchKey::Python, DispatchKey::Functionalize, DispatchKey::FuncTorchBatched,
       DispatchKey::FuncTorchGradWrapper, DispatchKey::FuncTorchDynamicLayerFrontMode});
  if (c10::impl::tls_is_dispatch_key_included(DispatchKey::Functionalize) ||
      c10::impl::tls_is_dispatch_key_included(DispatchKey::FuncTorchDynamicLayerFrontMode))
    return false;
  for (const auto& tensor : tensors)
    if (tensor.defined() && (tensor.key_set().has_any(watched) || tensor.is_meta())) return false;
  return true;
}

// The operator's values, without gradients.
void compute(const OperatorHandle& op, DispatchKeySet keys, Stack* stack) {
  auto arguments = take_arguments(stack, op);
  const auto inputs = tensors_of(op.schema(), 0, arguments.data());
  {
    const torch::NoGradGuard no_gradients;
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    definitions().at(op.schema().name()).compute.callBoxed(op, keys, &arguments);
  }
  auto results = results_of(arguments);
  own_memory(results, inputs);
  push_results(stack, op, results);
}

// gradients, needed, and the arguments of the operator -> the gradients of the needed inputs.
void differentiate(const OperatorHandle& op, DispatchKeySet keys, Stack* stack) {
  auto arguments = take_arguments(stack, op);
  const auto& name = op.schema().name();
  const auto& definition = definitions().at(name.substr(0, name.size() - kBackward.size()));
  const auto inputs = tensors_of(op.schema(), 0, arguments.data());
  const UsualState usual;
  if (definition.backward.isValid()) {
    const torch::AutoGradMode with_gradients(true);
    definition.backward.callBoxed(op, keys, &arguments);
    auto results = results_of(arguments);
    own_memory(results, inputs);
    push_results(stack, op, results);
    return;
  }
  const auto gradients = arguments[0].toTensorVector();
  const auto needed = arguments[1].toBoolList();
  Stack call(arguments.begin() + 2, arguments.end());
  Tensors leaves;
  size_t i = 0;
  for_each_tensor(op.schema(), 2, call.data(), [&](Tensor& tensor) {
    const bool wanted = needed[i++];
    if (!tensor.defined()) return;
    tensor = tensor.detach();
    if (wanted) leaves.push_back(tensor.requires_grad_(true));
  });
  Tensors results;
  {
    const torch::AutoGradMode with_gradients(true);
    definition.compute.callBoxed(op, keys, &call);
    Tensors outputs, output_gradients;
    const auto values = results_of(call);
    for (size_t k = 0; k < values.size(); ++k) {
      if (!values[k].requires_grad()) continue;
      outputs.push_back(values[k]);
      output_gradients.push_back(gradients[k]);
    }
    results = outputs.empty() ? Tensors(leaves.size())
                              : torch::autograd::grad(outputs, leaves, output_gradients,
                                                      /*retain_graph=*/false,
                                                      /*create_graph=*/false,
                                                      /*allow_unused=*/true);
  }
  for (size_t k = 0; k < leaves.size(); ++k)
    if (!results[k].defined()) results[k] = torch::zeros_like(leaves[k].detach());
  own_memory(results, inputs);
  push_results(stack, op, results);
}

// Gradients have the sizes of their inputs.
void shape_gradients(const OperatorHandle& op, Stack* stack) {
  auto arguments = take_arguments(stack, op);
  const auto needed = arguments[1].toBoolList();
  Tensors results;
  size_t i = 0;
  for_each_tensor(op.schema(), 2, arguments.data() + 2, [&](const Tensor& tensor) {
    if (needed[i++] && tensor.defined()) results.push_back(like(tensor));
  });
  push_results(stack, op, results);
}

struct Call {
  OperatorHandle op;
  Stack arguments;
};

// The operator as one node of the graph, with its backward operator.
class Recorded : public torch::autograd::Function<Recorded> {
  struct Kept : torch::CustomClassHolder {
    explicit Kept(Call given) : call(std::move(given)) {}
    Call call;                          // without its tensors
    std::vector<bool> defined, needed;  // of each tensor among the arguments
  };

 public:
  // inputs: the tensors of the call that are defined.
  static Tensors forward(AutogradContext* context, const Call& call, at::TensorList inputs) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    auto stack = call.arguments;
    call.op.callBoxed(stack);
    auto kept = c10::make_intrusive<Kept>(call);
    for_each_tensor(call.op.schema(), 0, kept->call.arguments.data(), [&](Tensor& tensor) {
      kept->defined.push_back(tensor.defined());
      kept->needed.push_back(tensor.defined() && tensor.requires_grad());
      tensor = Tensor();
    });
    context->save_for_backward(inputs.vec());
    context->saved_data["call"] = c10::IValue::make_capsule(kept);
    return results_of(stack);
  }

  static Tensors backward(AutogradContext* context, Tensors gradients) {
    const auto capsule = context->saved_data.at("call").toCapsule();
    const auto& kept = *static_cast<const Kept*>(capsule.get());
    const auto& call = kept.call;
    TORCH_CHECK(!torch::GradMode::is_enabled(), "[", call.op.schema().name(),
                "] has no second derivative (create_graph=True)");
    const auto inputs = context->get_saved_variables();
    const auto& name = call.op.schema().name();
    const auto op = c10::Dispatcher::singleton().findSchemaOrThrow((name + kBackward).c_str(), "");
    Stack stack;
    stack.emplace_back(gradients);
    c10::List<bool> flags;
    for (const bool wanted : kept.needed) flags.push_back(wanted);
    stack.emplace_back(flags);
    stack.insert(stack.end(), call.arguments.begin(), call.arguments.end());
    auto input = inputs.begin();
    size_t i = 0;
    for_each_tensor(call.op.schema(), 0, stack.data() + 2, [&](Tensor& tensor) {
      if (kept.defined[i++]) tensor = *input++;
    });
    op.callBoxed(stack);
    const auto results = results_of(stack);
    auto result = results.begin();
    Tensors all(1);  // nothing for the call
    for (i = 0; i < kept.needed.size(); ++i)
      if (kept.defined[i]) all.push_back(kept.needed[i] ? *result++ : Tensor());
    return all;
  }
};

void record(const OperatorHandle& op, DispatchKeySet keys, Stack* stack) {
  auto* arguments = arguments_on(*stack, op);
  auto inputs = tensors_of(op.schema(), 0, arguments);
  std::erase_if(inputs, [](const Tensor& input) { return !input.defined(); });
  bool needs_gradients = false;
  for (const auto& input : inputs) needs_gradients |= input.requires_grad();
  if (!needs_gradients || !torch::GradMode::is_enabled()) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    op.callBoxed(stack);
    return;
  }
  const auto& definition = definitions().at(op.schema().name());
  if (!definition.backward.isValid() && is_eager(inputs)) {
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    definition.compute.callBoxed(op, keys, stack);
    return;
  }
  const Call call{op, take_arguments(stack, op)};
  push_results(stack, op, Recorded::apply(call, at::TensorList(inputs)));
}

}  // namespace

void Operators::register_operator(const std::string& schema, c10::KernelFunction compute_kernel,
                                  torch::CppFunction shape, c10::KernelFunction backward_kernel) {
  const auto open = schema.find('('), arrow = schema.rfind(") ->");
  const auto name = schema.substr(0, open);
  const auto inputs = schema.substr(open + 1, arrow - open - 1);
  definitions()["geores::" + name] = {std::move(compute_kernel), std::move(backward_kernel)};

  const auto backward = name + kBackward;
  library_.def(schema.c_str());
  library_.impl(name.c_str(),
                torch::dispatch(DispatchKey::CompositeExplicitAutograd,
                                torch::CppFunction::makeFromBoxedFunction<&compute>()));
  library_.impl(name.c_str(), torch::dispatch(DispatchKey::Meta, std::move(shape)));
  library_.impl(
      name.c_str(),
      torch::dispatch(DispatchKey::Autograd, torch::CppFunction::makeFromBoxedFunction<&record>()));
  library_.def(
      (backward + "(Tensor[] gradients, bool[] needed, " + inputs + ") -> Tensor[]").c_str());
  library_.impl(backward.c_str(),
                torch::dispatch(DispatchKey::CompositeExplicitAutograd,
                                torch::CppFunction::makeFromBoxedFunction<&differentiate>()));
  library_.impl(backward.c_str(),
                torch::dispatch(DispatchKey::Meta,
                                torch::CppFunction::makeFromBoxedFunction<&shape_gradients>()));
}

std::vector<c10::SymInt> sizes_of(const Tensor& x) { return x.sym_sizes().vec(); }
Tensor empty_of(const Tensor& like, std::vector<c10::SymInt> sizes) {
  return like.new_empty_symint(sizes);
}
Tensor like(const Tensor& x) { return empty_of(x, sizes_of(x)); }

std::string text_of(c10::ArrayRef<c10::SymInt> sizes) {
  std::string text = "(";
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (i > 0) text += ", ";
    text += sizes[i].is_symbolic() ? "?" : std::to_string(sizes[i].expect_int());
  }
  return text + (sizes.size() == 1 ? ",)" : ")");
}

void own_memory(Tensors& results, const Tensors& inputs) {
  const auto shares = [](const Tensor& a, const Tensor& b) {
    return b.defined() && b.has_storage() && b.storage().data() == a.storage().data() &&
           a.numel() > 0;
  };
  for (size_t i = 0; i < results.size(); ++i) {
    auto& result = results[i];
    result = result.contiguous();
    bool shared = false;
    for (const auto& input : inputs) shared |= shares(result, input);
    for (size_t k = 0; k < i; ++k) shared |= shares(result, results[k]);
    if (shared) result = result.clone();
  }
}

}  // namespace geores::python
