#include "geores/portable/reference/names.h"

#include <map>
#include <string_view>
#include <vector>

#include "geores/base/error.h"
#include "geores/base/nearest.h"

namespace geores {
namespace {

struct Row {
  std::string_view ours, reference;
};

const std::map<std::string, std::string> kKinds = {
    {"gpt", "additive"}, {"ddl", "ddl_pooled"}, {"mhc", "mhc_split"},
    {"jpmhc", "jpmhc"},  {"edelta", "edelta"},  {"edelta_stream", "edelta_stream"}};

const std::vector<Row> kOutsideBlocks = {{"input", "input_proj"},
                                         {"positions", "pos_emb"},
                                         {"final_norm", "core.transformer.ln_f"},
                                         {"output", "output_proj"}};

const std::vector<Row> kSublayers = {{"attention.qkv", "attn.c_attn"},
                                     {"attention.out", "attn.c_proj"},
                                     {"mlp.up", "mlp.c_fc"},
                                     {"mlp.down", "mlp.c_proj"}};

// Inside a connection; @ is replaced by attn or mlp, # by 1 or 2.
const std::map<std::string, std::vector<Row>> kConnections = {
    {"additive", {{"norm", "ln_#"}}},
    {"ddl_pooled",
     {{"norm", "ln_#"},
      {"k.hidden", "delta_@.k_net.0"},
      {"k.output", "delta_@.k_net.2"},
      {"beta.hidden", "delta_@.beta_net.0"},
      {"beta.output", "delta_@.beta_net.2"}}},
    {"mhc_split",
     {{"norm", "ln_#"},
      {"rms_weight", "mhc_@.rms_norm.weight"},
      {"pre.weight", "mhc_@.phi_pre.weight"},
      {"pre.bias", "mhc_@.b_pre"},
      {"pre.scale", "mhc_@.alpha_pre"},
      {"post.weight", "mhc_@.phi_post.weight"},
      {"post.bias", "mhc_@.b_post"},
      {"post.scale", "mhc_@.alpha_post"},
      {"res.weight", "mhc_@.phi_res.weight"},
      {"res.bias", "mhc_@.b_res"},
      {"res.scale", "mhc_@.alpha_res"}}},
    {"jpmhc",
     {{"norm", "ln_#"}, {"mixer.norm", "jpmhc_@.norm"}, {"mixer.fused", "jpmhc_@.fused_proj"}}},
    {"edelta",
     {{"norm", "ln_#"},
      {"u.hidden", "geo_@.u_net.0"},
      {"u.output", "geo_@.u_net.2"},
      {"v.hidden", "geo_@.v_net.0"},
      {"v.output", "geo_@.v_net.2"},
      {"beta.hidden", "geo_@.beta_net.0"},
      {"beta.output", "geo_@.beta_net.2"},
      {"k.hidden", "geo_@.k_net.0"},
      {"k.output", "geo_@.k_net.2"},
      {"gate", "geo_@.gate_net"},
      {"pre", "h_pre_@"},
      {"post", "h_post_@"}}},
    {"edelta_stream",
     {{"norm", "ln_#"},
      {"generator_norm", "geo_@.norm"},
      {"generator.hidden", "geo_@.geo_proj.0"},
      {"generator.output", "geo_@.geo_proj.2"},
      {"router_norm", "router_@.norm"},
      {"router", "router_@.proj"}}},
};

// The row whose first column is `name` or a module around it, applied; empty if there is none.
std::string translate(const std::vector<Row>& rows, std::string_view name) {
  for (const auto& row : rows) {
    if (!name.starts_with(row.ours)) continue;
    const auto rest = name.substr(row.ours.size());
    if (rest.empty() || rest.front() == '.') return std::string(row.reference) + std::string(rest);
  }
  return "";
}

std::string substitute(std::string text, char mark, std::string_view value) {
  if (const auto at = text.find(mark); at != std::string::npos) text.replace(at, 1, value);
  return text;
}

std::string translate_in_block(const std::string& connection, std::string_view name) {
  struct Half {
    std::string_view prefix, sublayer, norm;
  };
  for (const auto& half :
       {Half{"attention_residual.", "attn", "1"}, Half{"mlp_residual.", "mlp", "2"}}) {
    if (!name.starts_with(half.prefix)) continue;
    const auto found = kConnections.find(connection);
    if (found == kConnections.end()) return "";
    auto text = translate(found->second, name.substr(half.prefix.size()));
    return substitute(substitute(text, '@', half.sublayer), '#', half.norm);
  }
  return translate(kSublayers, name);
}

}  // namespace

std::string connection_of_kind(const std::string& kind) {
  if (const auto found = kKinds.find(kind); found != kKinds.end()) return found->second;
  std::vector<std::string> known;
  for (const auto& [name, connection] : kKinds) known.push_back(name);
  const auto near = nearest(kind, known);
  if (near.empty())
    fail("reference", "unknown kind '{}': must be gpt, ddl, mhc, jpmhc, edelta or edelta_stream",
         kind);
  fail("reference", "unknown kind '{}', did you mean '{}'?", kind, near);
}

std::string reference_name(const std::string& connection, const std::string& parameter) {
  constexpr std::string_view blocks = "blocks.";
  std::string name;
  if (parameter.starts_with(blocks)) {
    const auto dot = parameter.find('.', blocks.size());
    const auto index = parameter.substr(blocks.size(), dot - blocks.size());
    const auto inside = translate_in_block(connection, parameter.substr(dot + 1));
    if (!inside.empty()) name = "core.transformer.h." + index + "." + inside;
  } else {
    name = translate(kOutsideBlocks, parameter);
  }
  require(!name.empty(), "reference", "the reference code has no counterpart of '{}' of {}",
          parameter, connection);
  return name;
}

}  // namespace geores
