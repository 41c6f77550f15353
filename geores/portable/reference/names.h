// The public reference code of the EΔ paper names its parameters differently. This is the one table
// between its names and ours.
//   blocks.3.attention_residual.u.hidden.weight  <->  core.transformer.h.3.geo_attn.u_net.0.weight
#pragma once

#include <string>

namespace geores {

// "gpt" -> "additive", "ddl" -> "ddl_pooled", "mhc" -> "mhc_split"; the others keep their names.
// Fails with the nearest name when `kind` is none of the reference's models.
std::string connection_of_kind(const std::string& kind);

// Fails when the reference has no counterpart of this parameter.
std::string reference_name(const std::string& connection, const std::string& parameter);

}  // namespace geores
