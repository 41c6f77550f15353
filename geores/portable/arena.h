// Memory of one model. Memory from an Arena is zero and valid until the Arena is destroyed; nothing is
// given back singly, so that a model's parts need no destructors.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>
#include <string_view>
#include <type_traits>
#include <utility>

#include "geores/portable/refuse.h"

namespace geores::portable {

class Arena {
 public:
  Arena() = default;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena() { clear(); }

  double* doubles(std::size_t count) { return static_cast<double*>(bytes(count, sizeof(double))); }

  template <class T, class... Arguments>
  T* make(Arguments&&... arguments) {
    static_assert(std::is_trivially_destructible_v<T>);
    return new (bytes(1, sizeof(T))) T(std::forward<Arguments>(arguments)...);
  }

  // Refuses where there is not enough.
  void* bytes(std::size_t count, std::size_t size) {
    const auto most = static_cast<std::size_t>(-1) / 2 / size;
    void* memory = count < most ? std::calloc(1, sizeof(Block) + count * size) : nullptr;
    refuse_unless(memory != nullptr, "model", "needs too much memory");
    last_ = new (memory) Block{last_};
    return last_ + 1;
  }

  void clear() {
    while (last_ != nullptr) std::free(std::exchange(last_, last_->before));
  }

 private:
  struct alignas(16) Block {
    Block* before;
  };
  Block* last_ = nullptr;
};

}  // namespace geores::portable
