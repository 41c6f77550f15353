// Connections whose operator acts on the streams of a state before the sublayer reads it, at
// inference: g = G x, x' = g + F(LN(g)). The formulas are in the headers of geores/residual/.
#pragma once

#include "geores/portable/connection.h"

namespace geores::portable {

Connection* make_edelta(const Place& place);    // all operators, pools and gates
Connection* make_isometry(const Place& place);  // all factors and pools

}  // namespace geores::portable
