#include "geores/base/checksum.h"

#include <fmt/format.h>

// The functions are compiled here: no library is needed where this one is linked.
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace geores {

struct Checksum::State {
  XXH3_state_t xxh3;  // aligned to 64 bytes, which `new` knows
};

Checksum::Checksum() : state_(std::make_unique<State>()) { XXH3_64bits_reset(&state_->xxh3); }

Checksum::~Checksum() = default;

void Checksum::add(std::span<const std::byte> bytes) {
  XXH3_64bits_update(&state_->xxh3, bytes.data(), bytes.size());
}

std::string Checksum::hex() const {
  return fmt::format("{:016x}", XXH3_64bits_digest(&state_->xxh3));
}

}  // namespace geores
