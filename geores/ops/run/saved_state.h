// The values that an autograd function keeps for its backward pass, as one struct with names:
//   struct Kept {
//     Tensor x, weight;            // inputs, outputs and what was computed
//     Tensor weight_slot;          // other members are kept unchanged
//     bool layer;
//     template <class Self, class F> static void tensors(Self& s, F&& f) { f(s.x); f(s.weight); }
//   };
//   save(context, Kept{...});                       // forward
//   const auto s = saved<Kept>(context);            // backward
// The tensors that `tensors` lists go through save_for_backward: autograd refuses a backward pass
// if one of them was modified, and an output among them does not keep its own graph alive.
#pragma once

#include <torch/custom_class.h>

#include <utility>
#include <vector>

#include "geores/ops/torch.h"

namespace geores::fused {

template <class State>
struct StateHolder : torch::CustomClassHolder {
  explicit StateHolder(State kept) : state(std::move(kept)) {}
  State state;
};

template <class State>
void save(torch::autograd::AutogradContext* context, State state) {
  torch::autograd::tensor_list all;
  struct Taker {
    torch::autograd::tensor_list& to;
    void operator()(torch::Tensor& tensor) const { to.push_back(std::exchange(tensor, {})); }
    void operator()(std::vector<torch::Tensor>& tensors) const {
      for (auto& tensor : tensors) (*this)(tensor);
    }
  };
  State::tensors(state, Taker{all});
  context->save_for_backward(std::move(all));
  context->saved_data["state"] =
      c10::IValue::make_capsule(c10::make_intrusive<StateHolder<State>>(std::move(state)));
}

template <class State>
State saved(torch::autograd::AutogradContext* context) {
  const auto capsule = context->saved_data.at("state").toCapsule();
  auto state = static_cast<const StateHolder<State>*>(capsule.get())->state;
  const auto all = context->get_saved_variables();
  struct Giver {
    torch::autograd::tensor_list::const_iterator& from;
    void operator()(torch::Tensor& tensor) const { tensor = *from++; }
    void operator()(std::vector<torch::Tensor>& tensors) const {
      for (auto& tensor : tensors) (*this)(tensor);
    }
  };
  auto next = all.begin();
  State::tensors(state, Giver{next});
  return state;
}

}  // namespace geores::fused
