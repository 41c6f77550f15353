// The store of a group (run_group.h), for code that uses c10d.
#pragma once

#include <chrono>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "geores/train/communication/run_group.h"

namespace geores {

struct RunGroup::Store {
  c10::intrusive_ptr<c10d::Store> store;
  std::chrono::milliseconds timeout;
  int64_t rank = 0, size = 1;

  void set(const std::string& key, const std::string& text);
  std::string get(const std::string& key);  // waits for the key; LostProcess if it does not arrive

  // Every process gives a text; every process receives rank 0's merged text.
  template <class Judge>
  std::string judged(const std::string& key, const std::string& text, Judge&& judge) {
    set(key + "/" + std::to_string(rank), text);
    if (rank == 0) {
      std::vector<std::string> all;
      for (int64_t other = 0; other < size; ++other)
        all.push_back(get(key + "/" + std::to_string(other)));
      set(key, judge(all));
    }
    return get(key);
  }
};

// Throws in all processes if these facts differ from rank 0's.
void require_same_facts(RunGroup::Store& store, const std::string& key,
                        const nlohmann::json& facts);

}  // namespace geores
