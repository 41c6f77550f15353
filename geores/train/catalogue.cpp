#include "geores/train/catalogue.h"

namespace geores {

const Catalogue& built_in() {
  static const Catalogue catalogue;
  return catalogue;
}

}  // namespace geores
