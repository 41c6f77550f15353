// A reproduction shared by several machines without a network. Each computes its shard of the runs
// and measurements in its own folder; the folders are then copied to one machine and merged, and
// the report is written there.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace geores {

// Every `count`th item, from number `index` on.
struct Shard {
  int64_t index = 1, count = 1;  // index in 1..count

  bool has(size_t number) const { return static_cast<int64_t>(number) % count == index - 1; }

  // The items of a list that belong to this shard.
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

// Copies the finished runs and the measurements of a reproduction into the folder of another, if
// they are missing there. Both must have the same reproduction.json. A run that is in both with
// different configurations is refused.
struct Merged {
  int64_t runs = 0, measurements = 0;
};
Merged merge_reproduction(const std::string& from, const std::string& into);

}  // namespace geores
