#include "geores/python/mhc.h"

#include <string>
#include <vector>

#include "geores/base/error.h"
#include "geores/ops/dense/linear.h"
#include "geores/ops/dense/norm.h"
#include "geores/ops/mixers/sinkhorn.h"
#include "geores/ops/streams/streams.h"
#include "geores/python/operators.h"

namespace geores::python {
namespace {

at::ScalarType mapping_type(const Tensor& x) {
  return x.scalar_type() == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32;
}

// Operations on streams take (B, T, n, C): all leading axes become T.
struct Flat {
  explicit Flat(const Tensor& x) : leading(x.sizes().slice(0, x.dim() - 2).vec()) {}
  Tensor in(const Tensor& value, int64_t axes) const {  // its last axes are not leading ones
    std::vector<int64_t> sizes = {1, -1};
    for (int64_t i = value.dim() - axes; i < value.dim(); ++i) sizes.push_back(value.size(i));
    if (value.numel() == 0) sizes[1] = 0;
    return value.reshape(sizes);
  }
  Tensor out(const Tensor& value) const {
    auto sizes = leading;
    for (int64_t i = 2; i < value.dim(); ++i) sizes.push_back(value.size(i));
    return value.reshape(sizes);
  }
  std::vector<int64_t> leading;
};

// vec(x) fnᵀ of the normalized streams.
Tensor projected(const Tensor& x, const Tensor& fn, double norm_eps) {
  const auto type = mapping_type(x);
  const auto flat = x.flatten(-2).to(type);
  return linear_map(rms_normalize(flat, norm_eps), fn.to(type));
}

// Texts are made for refusals alone: a call must cost little.
void expect(const char* name, const Tensor& tensor, const std::vector<c10::SymInt>& wanted,
            const Tensor& x) {
  const auto sizes = tensor.sym_sizes();
  bool fits = sizes.size() == wanted.size();
  for (size_t i = 0; fits && i < wanted.size(); ++i) fits = sizes[i] == wanted[i];
  if (!fits)
    fail("mhc", "{} must be {} for x {}, got {}", name, text_of(wanted), text_of(x.sym_sizes()),
         text_of(sizes));
  if (tensor.device() != x.device())
    fail("mhc", "x is on {}, {} is on {}", x.device().str(), name, tensor.device().str());
}

void check_streams(const Tensor& x) {
  if (x.dim() < 3) fail("mhc", "x must be (..., streams, width), got {}", text_of(x.sym_sizes()));
  if (!at::isFloatingType(x.scalar_type()))
    fail("mhc", "x must have a floating-point type, got {}", c10::toString(x.scalar_type()));
}

void check_projection(const Tensor& x, const Tensor& fn, const Tensor& scale, const Tensor& base,
                      const c10::SymInt& outputs, int64_t scales) {
  const auto sizes = x.sym_sizes();
  expect("fn", fn, {outputs, sizes[sizes.size() - 2] * sizes[sizes.size() - 1]}, x);
  expect("base", base, {outputs}, x);
  expect("scale", scale, {scales}, x);
}

}  // namespace

void check_mapping(const Tensor& x, const Tensor& fn, const Tensor& scale, const Tensor& base) {
  check_streams(x);
  const auto n = x.sym_sizes()[static_cast<size_t>(x.dim() - 2)];
  check_projection(x, fn, scale, base, n * (n + 2), 3);
}

void check_head(const Tensor& x, const Tensor& fn, const Tensor& scale, const Tensor& base) {
  check_streams(x);
  check_projection(x, fn, scale, base, x.sym_sizes()[static_cast<size_t>(x.dim() - 2)], 1);
}

void check_weights(const Tensor& x, const char* name, const Tensor& weights, int64_t axes) {
  check_streams(x);
  auto wanted = x.sym_sizes().vec();
  const auto n = wanted[wanted.size() - 2];
  wanted.resize(wanted.size() - 2);
  for (int64_t i = 0; i < axes; ++i) wanted.push_back(n);
  expect(name, weights, wanted, x);
}

void check_branch(const Tensor& x, const Tensor& f) {
  auto wanted = x.sym_sizes().vec();
  wanted.erase(wanted.end() - 2);
  expect("f", f, wanted, x);
}

MhcMapping mhc_mapping(const Tensor& x, const Tensor& fn, const Tensor& scale, const Tensor& base,
                       int64_t iterations, double norm_eps, double eps) {
  check_mapping(x, fn, scale, base);
  const auto n = x.size(-2);
  const auto type = mapping_type(x);
  const auto parts = projected(x, fn, norm_eps).split_with_sizes({n, n, n * n}, -1);
  const auto bases = base.to(type).split_with_sizes({n, n, n * n}, -1);
  const auto scales = scale.to(type);
  const auto logits = [&](int64_t i) {
    return parts[static_cast<size_t>(i)] * scales.select(0, i) + bases[static_cast<size_t>(i)];
  };
  const auto mixer = logits(2).unflatten(-1, std::vector<int64_t>{n, n});
  return {.pre = torch::sigmoid(logits(0)) + eps,
          .post = 2 * torch::sigmoid(logits(1)),
          .comb = softmax_sinkhorn(mixer.transpose(-1, -2), iterations, eps)
                      .transpose(-1, -2)
                      .contiguous()};
}

Tensor mhc_read(const Tensor& x, const Tensor& pre) {
  check_weights(x, "pre", pre, 1);
  const Flat flat(x);
  const auto read = collect_streams(flat.in(pre, 1), flat.in(x.to(pre.scalar_type()), 2));
  return flat.out(read).to(x.scalar_type());
}

Tensor mhc_write(const Tensor& x, const Tensor& f, const Tensor& post, const Tensor& comb) {
  check_weights(x, "post", post, 1);
  check_weights(x, "comb", comb, 2);
  check_branch(x, f);
  const Flat flat(x);
  const auto type = post.scalar_type();
  const auto written = mix_and_write(flat.in(comb.transpose(-1, -2), 2), flat.in(x.to(type), 2),
                                     flat.in(post, 1), flat.in(f.to(type), 1));
  return flat.out(written).to(x.scalar_type());
}

Tensor mhc_head(const Tensor& x, const Tensor& fn, const Tensor& scale, const Tensor& base,
                double norm_eps, double eps) {
  check_head(x, fn, scale, base);
  const auto type = mapping_type(x);
  const auto logits = projected(x, fn, norm_eps) * scale.to(type) + base.to(type);
  return mhc_read(x, torch::sigmoid(logits) + eps);
}

MhcSite mhc_site(const Tensor& x, const Tensor& f, const Tensor& pre, const Tensor& post,
                 const Tensor& comb, const Tensor& fn, const Tensor& scale, const Tensor& base,
                 int64_t iterations, double norm_eps, double eps) {
  const auto written = mhc_write(x, f, post, comb);
  return {.x = written,
          .u = mhc_read(written, pre),
          .mapping = mhc_mapping(written, fn, scale, base, iterations, norm_eps, eps)};
}

}  // namespace geores::python
