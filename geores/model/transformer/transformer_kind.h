// The transformer as a kind of model: its options, its connection's options, and their conversion,
// with the shape of the data, to a TransformerConfig.
#pragma once

#include "geores/model/registry.h"
#include "geores/model/transformer/transformer.h"

namespace geores {

ModelKind transformer_kind();

// `options`: keys of TransformerConfig::fields() and of the connection; defaults for the rest.
TransformerConfig transformer_config(const nlohmann::json& options, const InputShape& input);

}  // namespace geores
