// Delta rules at inference; the formulas are in the headers of geores/residual/.
#pragma once

#include "geores/portable/connection.h"

namespace geores::portable {

Connection* make_ddl(const Place& place);
Connection* make_ddl_pooled(const Place& place);
Connection* make_mgt(const Place& place);

}  // namespace geores::portable
