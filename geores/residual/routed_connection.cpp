#include "geores/residual/routed_connection.h"

namespace geores {

Tensor RoutedConnection::forward(const Tensor& x, const Sublayer& f, Trace& trace) {
  return advance(x, f, trace).total();
}

State RoutedConnection::advance(const State& state, const Sublayer& f, Trace& trace) {
  const auto token = routed(state, trace);
  return token.leave(f(token.read()));
}

PostNormed RoutedConnection::forward_normalized(const Tensor& x, const Sublayer& f,
                                                const PostNorm& norm, Trace& trace) {
  const auto token = routed(x, trace);
  return token.write_normalized(f(token.read()), norm);
}

std::unique_ptr<TokenStep> RoutedConnection::token_step(int64_t batch) const {
  return Routed::step(spec(), batch);
}

Routed RoutedConnection::routed(const State& state, Trace& trace) {
  auto token = Routed::make(state, spec());
  if (trace.probing()) {
    const auto routes = token.routes();
    trace.probe("operator", [&] { return routes.res; });
    trace.probe("pre", [&] { return routes.read; });
    trace.probe("post", [&] { return routes.write; });
  }
  return token;
}

}  // namespace geores
