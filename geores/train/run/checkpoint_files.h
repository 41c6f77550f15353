// The newest checkpoint of a run and the one before it.
#pragma once

#include <filesystem>

#include "geores/base/formats/safetensors.h"

namespace geores {

// Writes `content` to `newest`; with `keep` what was there becomes `previous`. At every moment, also
// after a kill, `newest` is a whole checkpoint, the old one or the new one.
void write_checkpoint(const SafetensorsWriter& content, const std::filesystem::path& newest,
                      const std::filesystem::path& previous, bool keep);

}  // namespace geores
