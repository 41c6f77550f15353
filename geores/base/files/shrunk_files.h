// A page beyond the end of a mapped file that was shortened cannot be read: the process gets SIGBUS,
// and would end without a message. While a file is watched, such a fault ends it with one line
// that names the file, and exit code 1. Faults elsewhere are passed to the previous handler.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace geores {

void watch_mapped_file(std::span<const std::byte> bytes, const std::filesystem::path& path);
void forget_mapped_file(std::span<const std::byte> bytes);

}  // namespace geores
