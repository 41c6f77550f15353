// Connections as functions of tensors. A connection is named by a JSON text:
//   {"name": "mhc", "width": 4096, "streams": 4, "index": 0, "options": {"form": "v4"}}
// and its state is the list of its parameters, then its buffers, in the order of describe().
//
// One connection of the registry computes both steps:
//   read(x)      forward() up to the sublayer: the sublayer's input u
//   write(x, f)  forward() around a sublayer that returns f
// write() computes the routes of x again instead of keeping them. So x, f and the state are all that
// autograd keeps, and every connection has both steps without knowing of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "geores/python/operators.h"

namespace geores::python {

// Every connection of the registry with its options, as JSON.
std::string list_connections();

// The facts of a connection that Python needs, as JSON: names of the state, layout, widths, whether
// it has an auxiliary loss.
std::string describe(const std::string& connection);

// A new state, drawn with a generator of its own.
Tensors draw_state(const std::string& connection, int64_t seed);

// u, and the auxiliary loss of a connection that has one. x (B, T, D), or (B, T, n, C) for layout
// expand.
Tensors read(const Tensor& x, at::TensorList state, const std::string& connection);
Tensors read_shape(const Tensor& x, at::TensorList state, const std::string& connection);
Tensors read_backward(at::TensorList gradients, c10::List<bool> needed, const Tensor& x,
                      at::TensorList state, const std::string& connection);

// The state of the streams after a sublayer whose output is f.
Tensor write(const Tensor& x, const Tensor& f, at::TensorList state, const std::string& connection);
Tensor write_shape(const Tensor& x, const Tensor& f, at::TensorList state,
                   const std::string& connection);
Tensors write_backward(at::TensorList gradients, c10::List<bool> needed, const Tensor& x,
                       const Tensor& f, at::TensorList state, const std::string& connection);

// The probes of a pass, detached.
c10::Dict<std::string, Tensor> probes(const Tensor& x, const Tensor& f, at::TensorList state,
                                      const std::string& connection);

// The state after one step of the parameters on manifolds; the others are unchanged. A gradient may be
// empty.
Tensors manifold_step(at::TensorList state, at::TensorList gradients,
                      const std::string& connection);

}  // namespace geores::python
