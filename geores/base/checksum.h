// A 64-bit checksum of bytes that are given piece by piece: XXH3 of libxxhash, for damage on a disk or on
// the way there, not for secrecy. Cost: a tenth of a second for a gigabyte.
//   Checksum sum;
//   sum.add(bytes);
//   sum.hex();  // "2d06800538d394c2"
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace geores {

class Checksum {
 public:
  static constexpr std::size_t kDigits = 16;  // of hex()

  Checksum();
  ~Checksum();

  void add(std::span<const std::byte> bytes);
  std::string hex() const;  // of all bytes so far

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace geores
