// The newest and the previous checkpoint of a run.
#pragma once

#include <filesystem>

#include "geores/base/formats/safetensors.h"

namespace geores {

// Writes `content` to `newest`; with `keep` the old file becomes `previous`. At every moment, also
// after a kill, `newest` is a complete checkpoint, the old one or the new one.
void write_checkpoint(const SafetensorsWriter& content, const std::filesystem::path& newest,
                      const std::filesystem::path& previous, bool keep);

}  // namespace geores
