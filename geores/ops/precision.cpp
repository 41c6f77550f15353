#include "geores/ops/precision.h"

#include "geores/base/error.h"

namespace geores {
namespace {

thread_local bool in_bfloat16 = false;

}  // namespace

PrecisionScope::PrecisionScope(const std::string& precision) : before_(in_bfloat16) {
  require(precision == "fp32" || precision == "bf16", "precision", "must be fp32 or bf16, got '{}'",
          precision);
  in_bfloat16 = precision == "bf16";
}

PrecisionScope::~PrecisionScope() { in_bfloat16 = before_; }

bool products_in_bfloat16() { return in_bfloat16; }

Tensor for_product(const Tensor& x) {
  return in_bfloat16 && x.defined() && x.scalar_type() == torch::kFloat32 ? x.to(torch::kBFloat16)
                                                                          : x;
}

}  // namespace geores
