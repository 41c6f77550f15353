#include "geores/residual/registry.h"

#include "geores/base/error.h"
#include "geores/residual/additive/additive.h"
#include "geores/residual/ddl/ddl.h"
#include "geores/residual/ddl_pooled/ddl_pooled.h"
#include "geores/residual/edelta/edelta.h"
#include "geores/residual/edelta_stream/edelta_stream.h"
#include "geores/residual/hc/hc.h"
#include "geores/residual/isometry/isometry.h"
#include "geores/residual/jpmhc/jpmhc.h"
#include "geores/residual/mgt/mgt.h"
#include "geores/residual/mhc/mhc.h"
#include "geores/residual/mhc_lite/mhc_lite.h"
#include "geores/residual/mhc_split/mhc_split.h"
#include "geores/residual/shc/shc.h"

namespace geores {

const std::vector<Connection>& connections() {
  static const std::vector<Connection> all = {
      additive_connection(),  edelta_connection(),     edelta_stream_connection(),
      ddl_connection(),       ddl_pooled_connection(), hc_connection(),
      mhc_connection(),       mhc_lite_connection(),   shc_connection(),
      mhc_split_connection(), jpmhc_connection(),      mgt_connection(),
      isometry_connection(),
  };
  return all;
}

const Connection& find_connection(const std::string& name) {
  std::vector<std::string> known;
  for (const auto& connection : connections()) {
    if (connection.name == name) return connection;
    known.push_back(connection.name);
  }
  const auto near = nearest(name, known);
  if (near.empty()) fail("model", "unknown connection '{}'; see `geores list`", name);
  fail("model", "unknown connection '{}', did you mean '{}'?", name, near);
}

std::shared_ptr<Residual> make_residual(const std::string& name, const ResidualConfig& config) {
  return find_connection(name).make(config);
}

}  // namespace geores
