#include "lab/reference/public_names.h"

#include <map>
#include <string_view>
#include <vector>

#include "geores/base/error.h"
#include "geores/base/nearest.h"
#include "geores/ops/mixers/constants.h"

namespace geores {
namespace {

using Part = Tensor (*)(const Tensor&, int64_t n);

struct PublicRow {
  std::string_view ours, theirs;
  Part part;
};

Tensor whole(const Tensor& t, int64_t) { return t; }
Tensor transposed(const Tensor& t, int64_t) { return t.t(); }
Tensor one_value(const Tensor& t, int64_t) { return t.reshape({1}); }
Tensor as_row(const Tensor& t, int64_t) { return t.unsqueeze(0); }

// static_alpha (n, 1 + n): the first column reads, the rest mixes, [j, 1 + i] from stream j to i.
Tensor first_column(const Tensor& t, int64_t) { return t.select(1, 0); }
Tensor mixing_columns(const Tensor& t, int64_t) { return t.slice(1, 1).t(); }

// dynamic_alpha_fn of hc (C, 1 + n).
Tensor first_as_row(const Tensor& t, int64_t) { return t.slice(1, 0, 1).t(); }
Tensor rest_as_rows(const Tensor& t, int64_t) { return t.slice(1, 1).t(); }

// dynamic_alpha_fn of mhc (nC, n(1 + n)), column j(1 + n) + 1 + i as above.
Tensor mhc_reading(const Tensor& t, int64_t n) { return t.t().view({n, n + 1, -1}).select(1, 0); }
Tensor mhc_mixing(const Tensor& t, int64_t n) {
  return t.t().reshape({n, n + 1, -1}).slice(1, 1).transpose(0, 1).reshape({n * n, -1});
}

// The index of the inverse of every permutation: their matrices are applied transposed.
Tensor inverses(int64_t n) {
  const auto maps = all_permutations(n).argmax(-1).contiguous();  // (n!, n)
  std::map<std::vector<int64_t>, int64_t> index;
  const auto row = [&](int64_t m) {
    const auto* values = maps.data_ptr<int64_t>() + m * n;
    return std::vector<int64_t>(values, values + n);
  };
  for (int64_t m = 0; m < maps.size(0); ++m) index[row(m)] = m;
  std::vector<int64_t> result;
  for (int64_t m = 0; m < maps.size(0); ++m) {
    const auto map = row(m);
    std::vector<int64_t> inverse(map.size());
    for (size_t i = 0; i < map.size(); ++i)
      inverse[static_cast<size_t>(map[i])] = static_cast<int64_t>(i);
    result.push_back(index.at(inverse));
  }
  return torch::tensor(result);
}

// Of mhc_lite: n that read, then one for each permutation, in static_alpha and as columns.
Tensor first_values(const Tensor& t, int64_t n) { return t.slice(0, 0, n); }
Tensor permuted_values(const Tensor& t, int64_t n) {
  return t.slice(0, n).index_select(0, inverses(n));
}
Tensor first_columns(const Tensor& t, int64_t n) { return first_values(t.t(), n); }
Tensor permuted_columns(const Tensor& t, int64_t n) { return permuted_values(t.t(), n); }

// fn and base of DeepSeek-V4: n rows that read, n that write, n² that mix, the latter transposed.
Tensor reading_rows(const Tensor& t, int64_t n) { return t.slice(0, 0, n); }
Tensor writing_rows(const Tensor& t, int64_t n) { return t.slice(0, n, 2 * n); }
Tensor mixing_bias(const Tensor& t, int64_t n) { return t.slice(0, 2 * n).view({n, n}).t(); }
Tensor mixing_rows(const Tensor& t, int64_t n) {
  return t.slice(0, 2 * n).view({n, n, -1}).transpose(0, 1).reshape({n * n, -1});
}
Tensor scale_of_reading(const Tensor& t, int64_t) { return t.slice(0, 0, 1); }
Tensor scale_of_writing(const Tensor& t, int64_t) { return t.slice(0, 1, 2); }
Tensor scale_of_mixing(const Tensor& t, int64_t) { return t.slice(0, 2, 3); }

const std::vector<PublicRow> kPublicOutside = {
    {"embedding", "transformer.wte.weight", whole},
    {"positions", "transformer.wpe.weight", whole},
    {"final_norm.weight", "transformer.ln_f.weight", whole}};

// In transformer.h.{i}.
const std::vector<PublicRow> kPlainBlock = {
    {"attention_residual.norm.weight", "ln_1.weight", whole},
    {"attention.qkv.weight", "attn.c_attn.weight", whole},
    {"attention.out.weight", "attn.c_proj.weight", whole},
    {"mlp_residual.norm.weight", "ln_2.weight", whole},
    {"mlp.up.weight", "mlp.c_fc.weight", whole},
    {"mlp.down.weight", "mlp.c_proj.weight", whole}};
const std::vector<PublicRow> kHyperBlock = {
    {"attention_residual.norm.weight", "branch_attn.0.weight", whole},
    {"attention.qkv.weight", "branch_attn.1.c_attn.weight", whole},
    {"attention.out.weight", "branch_attn.1.c_proj.weight", whole},
    {"mlp_residual.norm.weight", "branch_mlp.0.weight", whole},
    {"mlp.up.weight", "branch_mlp.1.c_fc.weight", whole},
    {"mlp.down.weight", "branch_mlp.1.c_proj.weight", whole}};

// In transformer.h.{i}.hc_attn and hc_mlp.
const std::map<std::string, std::vector<PublicRow>> kHyperConnections = {
    {"lm_hc",
     {{"pre.weight", "dynamic_alpha_fn", first_as_row},
      {"pre.bias", "static_alpha", first_column},
      {"res.weight", "dynamic_alpha_fn", rest_as_rows},
      {"res.bias", "static_alpha", mixing_columns},
      {"scale", "dynamic_alpha_scale", one_value},
      {"post.weight", "dynamic_beta_fn", as_row},
      {"post.bias", "static_beta", whole},
      {"post_scale", "dynamic_beta_scale", one_value}}},
    {"lm_mhc",
     {{"pre.weight", "dynamic_alpha_fn", mhc_reading},
      {"pre.bias", "static_alpha", first_column},
      {"pre.scale", "pre_branch_scale", one_value},
      {"res.weight", "dynamic_alpha_fn", mhc_mixing},
      {"res.bias", "static_alpha", mixing_columns},
      {"res.scale", "residual_scale", one_value},
      {"post.weight", "dynamic_beta_fn", transposed},
      {"post.bias", "static_beta", whole},
      {"post.scale", "h_post_scale", one_value}}},
    {"lm_mhc_lite",
     {{"pre.weight", "dynamic_alpha_fn", first_columns},
      {"pre.bias", "static_alpha", first_values},
      {"pre.scale", "pre_branch_scale", one_value},
      {"res.weight", "dynamic_alpha_fn", permuted_columns},
      {"res.bias", "static_alpha", permuted_values},
      {"res.scale", "residual_scale", one_value},
      {"post.weight", "dynamic_beta_fn", transposed},
      {"post.bias", "static_beta", whole},
      {"post.scale", "h_post_scale", one_value}}}};

const std::vector<PublicRow> kV4 = {
    {"pre.weight", "fn", reading_rows},       {"pre.bias", "base", reading_rows},
    {"pre.scale", "scale", scale_of_reading}, {"post.weight", "fn", writing_rows},
    {"post.bias", "base", writing_rows},      {"post.scale", "scale", scale_of_writing},
    {"res.weight", "fn", mixing_rows},        {"res.bias", "base", mixing_bias},
    {"res.scale", "scale", scale_of_mixing}};
const std::vector<PublicRow> kV4Head = {{"weights.weight", "hc_fn", whole},
                                        {"weights.bias", "hc_base", whole},
                                        {"weights.scale", "hc_scale", whole}};

const std::map<std::string, std::string> kConnectionOfKind = {
    {"lm_gpt", "additive"}, {"lm_hc", "hc"}, {"lm_mhc", "mhc"}, {"lm_mhc_lite", "mhc_lite"}};

// Nothing if no row has that name.
PublicTensor find_row(const std::vector<PublicRow>& rows, std::string_view ours,
                      const std::string& prefix, int64_t n) {
  for (const auto& row : rows)
    if (row.ours == ours)
      return {prefix + std::string(row.theirs),
              [part = row.part, n](const Tensor& t) { return part(t, n); }};
  return {};
}

PublicTensor in_block(const std::string& kind, std::string_view ours, const std::string& prefix,
                      int64_t n) {
  const auto hyper = kHyperConnections.find(kind);
  if (hyper == kHyperConnections.end()) return find_row(kPlainBlock, ours, prefix, n);
  if (const auto source = find_row(kHyperBlock, ours, prefix, n); source.part) return source;
  constexpr std::string_view attention = "attention_residual.", mlp = "mlp_residual.";
  if (ours.starts_with(attention))
    return find_row(hyper->second, ours.substr(attention.size()), prefix + "hc_attn.", n);
  if (ours.starts_with(mlp))
    return find_row(hyper->second, ours.substr(mlp.size()), prefix + "hc_mlp.", n);
  return {};
}

PublicTensor required(PublicTensor source, const std::string& code, const std::string& ours) {
  require(static_cast<bool>(source.part), "reference", "{} has no counterpart of '{}'", code, ours);
  return source;
}

}  // namespace

std::string connection_of_language_kind(const std::string& kind) {
  if (const auto found = kConnectionOfKind.find(kind); found != kConnectionOfKind.end())
    return found->second;
  std::vector<std::string> known;
  for (const auto& [name, connection] : kConnectionOfKind) known.push_back(name);
  fail("reference", "unknown kind '{}'{}", kind, did_you_mean(kind, known));
}

PublicTensor public_tensor(const std::string& kind, const std::string& parameter, int64_t streams) {
  constexpr std::string_view blocks = "blocks.";
  const std::string_view ours = parameter;
  if (!ours.starts_with(blocks))
    return required(find_row(kPublicOutside, ours, "", streams), kind, parameter);
  const auto dot = ours.find('.', blocks.size());
  const auto number = std::string(ours.substr(blocks.size(), dot - blocks.size()));
  return required(in_block(kind, ours.substr(dot + 1), "transformer.h." + number + ".", streams),
                  kind, parameter);
}

PublicTensor v4_tensor(const std::string& parameter, int64_t streams) {
  return required(find_row(kV4, parameter, "", streams), "DeepSeek-V4", parameter);
}

PublicTensor v4_head_tensor(const std::string& parameter) {
  return required(find_row(kV4Head, parameter, "", 0), "DeepSeek-V4's head", parameter);
}

}  // namespace geores
