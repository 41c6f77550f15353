#include "geores/train/run/version.h"

namespace geores {

const char* version_and_commit() { return "geores " GEORES_VERSION ", commit " GEORES_COMMIT; }

}  // namespace geores
