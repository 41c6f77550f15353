// A reproduction that several machines share without a network between them. Each does its shard of the
// runs and measurements in a folder of its own; the folders are then copied to one machine and merged,
// and the report is written there.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace geores {

// Every `count`th thing, from number `index` on.
struct Shard {
  int64_t index = 1, count = 1;  // index in 1..count

  bool is_part() const { return count > 1; }
  bool has(size_t number) const { return static_cast<int64_t>(number) % count == index - 1; }

  // Those of a list that are this shard's.
  template <class T>
  std::vector<T> of(const std::vector<T>& all) const {
    std::vector<T> own;
    for (size_t i = 0; i < all.size(); ++i)
      if (has(i)) own.push_back(all[i]);
    return own;
  }
};

// "2/8" is the second of eight.
Shard shard_from(const std::string& text);

// Copies the finished runs and the measurements of a reproduction into the folder of another, where
// they are not there yet. Both must have the same reproduction.json. A run that is in both with another
// configuration is refused.
struct Merged {
  int64_t runs = 0, measurements = 0;
};
Merged merge_reproduction(const std::string& from, const std::string& into);

}  // namespace geores
