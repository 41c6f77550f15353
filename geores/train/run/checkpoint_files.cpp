#include "geores/train/run/checkpoint_files.h"

#include <system_error>

namespace geores {

namespace fs = std::filesystem;

void write_checkpoint(const SafetensorsWriter& content, const fs::path& newest,
                      const fs::path& previous, bool keep) {
  if (!keep || !fs::exists(newest)) return content.save(newest);
  fs::remove(previous);
  std::error_code unlinked;
  fs::create_hard_link(newest, previous, unlinked);
  // Some file systems have no hard links; there the newest file is missing while the next one is
  // written.
  if (unlinked) fs::rename(newest, previous);
  try {
    content.save(newest);
  } catch (...) {
    std::error_code ignored;
    fs::rename(previous, newest, ignored);
    throw;
  }
}

}  // namespace geores
