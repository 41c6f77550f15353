// The connections that there are; the formulas are in the headers of geores/residual/.
#pragma once

#include "geores/portable/connection.h"

namespace geores::portable {

// g = G x, x' = g + F(LN(g)), G on the streams of a state.
Connection* make_edelta(const Place& place);    // all operators, pools and gates
Connection* make_isometry(const Place& place);  // all factors and pools

// Delta rules.
Connection* make_ddl(const Place& place);
Connection* make_ddl_pooled(const Place& place);
Connection* make_mgt(const Place& place);

// Streams that are read, mixed and written by numbers made anew for each token (routed.h).
Connection* make_edelta_stream(const Place& place);
Connection* make_jpmhc(const Place& place);
Connection* make_mhc_split(const Place& place);
Connection* make_hc(const Place& place);
Connection* make_mhc(const Place& place);
Connection* make_mhc_lite(const Place& place);
Connection* make_shc(const Place& place);

}  // namespace geores::portable
