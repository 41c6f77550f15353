// Operators of torch.ops.geores, each with a backward operator:
//   Operators(library).add("gelu(Tensor x) -> Tensor", &exact_gelu, &like);
// registers geores::gelu and
//   geores::gelu_backward(Tensor[] gradients, bool[] needed, Tensor x) -> Tensor[]
// which returns the gradients of those inputs that are `needed`.
//
// The function given to add() defines the operator: any function of tensors that LibTorch can
// differentiate. How an operator runs depends on the caller:
//   eager      the function itself runs under autograd: its own backward passes are recorded
//   traced     (torch.compile, make_fx, a dispatch mode) the two operators are opaque nodes of the
//              graph. The backward operator runs the function again and differentiates it: only the
//              operator's inputs are kept
//   meta       the second function of add() gives the results' sizes, symbolic ones included
#pragma once

#include <torch/library.h>

#include <string>
#include <utility>
#include <vector>

#include "geores/ops/torch.h"

namespace geores::python {

using torch::Tensor;
using Tensors = std::vector<Tensor>;

class Operators {
 public:
  explicit Operators(torch::Library& library) : library_(library) {}

  template <class Compute, class Shape>
  void add(const std::string& schema, Compute compute, Shape shape) {
    register_operator(schema, kernel(compute), torch::CppFunction(shape), c10::KernelFunction());
  }

  // With a backward operator of its own: backward(gradients, needed, inputs...). It runs in eager
  // mode too.
  template <class Compute, class Shape, class Backward>
  void add(const std::string& schema, Compute compute, Shape shape, Backward backward) {
    register_operator(schema, kernel(compute), torch::CppFunction(shape), kernel(backward));
  }

 private:
  template <class F>
  static c10::KernelFunction kernel(F f) {
    return c10::KernelFunction::makeFromUnboxedRuntimeFunction(+f);
  }

  void register_operator(const std::string& schema, c10::KernelFunction compute,
                         torch::CppFunction shape, c10::KernelFunction backward);

  torch::Library& library_;
};

// Empty tensors for results of operators on meta tensors, whose sizes may be symbols.
Tensor like(const Tensor& x);
Tensor empty_of(const Tensor& like, std::vector<c10::SymInt> sizes);
std::vector<c10::SymInt> sizes_of(const Tensor& x);
std::string text_of(c10::ArrayRef<c10::SymInt> sizes);  // "(2, 3)", for messages

// Results of an operator share no memory with its inputs or with each other, and are contiguous.
void own_memory(Tensors& results, const Tensors& inputs);

}  // namespace geores::python
