// The probes of connections that read, mix and write streams: operator = res (B, T, n, n), pre =
// read and post = write (B, T, n).
#pragma once

#include "geores/ops/routed/routes.h"
#include "geores/residual/residual.h"

namespace geores {

inline void probe_routes(Trace& trace, const Routes& routes) {
  trace.probe("operator", [&] { return routes.res; });
  trace.probe("pre", [&] { return routes.read; });
  trace.probe("post", [&] { return routes.write; });
}

}  // namespace geores
