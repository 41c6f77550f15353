// The connections that there are; the formulas are in the headers of geores/residual/.
#pragma once

#include "geores/portable/connection.h"

namespace geores::portable {

// g = G x, x' = g + F(LN(g)), G on the streams of a state.
Connection* make_edelta(const ConnectionSource& source);    // all operators, pools and gates
Connection* make_isometry(const ConnectionSource& source);  // all factors and pools

// Delta rules.
Connection* make_ddl(const ConnectionSource& source);
Connection* make_ddl_pooled(const ConnectionSource& source);
Connection* make_mgt(const ConnectionSource& source);

// Streams that are read, mixed and written by numbers made anew for each token (routed.h).
Connection* make_edelta_stream(const ConnectionSource& source);
Connection* make_jpmhc(const ConnectionSource& source);
Connection* make_mhc_split(const ConnectionSource& source);
Connection* make_hc(const ConnectionSource& source);
Connection* make_mhc(const ConnectionSource& source);
Connection* make_mhc_lite(const ConnectionSource& source);
Connection* make_shc(const ConnectionSource& source);

}  // namespace geores::portable
