// The write of the forms whose first operation mixes the gradient of the carried state (forms.h).
#pragma once

#include <memory>
#include <vector>

#include "geores/ops/routed/forms/forms.h"

namespace geores {

class CarriedForm final : public RoutedForm {
 public:
  // Outputs of the first operation: the sublayer's input, the carried x (B, T, n·d), res, read, write; res
  // and read are not differentiable.
  static std::unique_ptr<RoutedForm> of(const std::vector<Tensor>& outputs);

  Tensor write(const Tensor& y) const override;

 private:
  using RoutedForm::RoutedForm;
};

}  // namespace geores
