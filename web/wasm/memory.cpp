// The predictor's malloc, instead of the C library's eight kilobytes. Memory comes from the end of
// the heap and is never freed: an instance holds one model, and the page drops both together.
#include <cstddef>
#include <cstdint>

extern "C" {

extern unsigned char __heap_base;

void* malloc(std::size_t size) {
  static std::uintptr_t next = reinterpret_cast<std::uintptr_t>(&__heap_base);
  constexpr std::uintptr_t page = 65536, alignment = 16;
  const std::uintptr_t begin = (next + alignment - 1) / alignment * alignment;
  const std::uintptr_t have = __builtin_wasm_memory_size(0) * page;
  if (size > UINTPTR_MAX - page - begin) return nullptr;
  const std::uintptr_t end = begin + size;
  if (end > have &&
      __builtin_wasm_memory_grow(0, (end - have + page - 1) / page) == static_cast<std::size_t>(-1))
    return nullptr;
  next = end;
  return reinterpret_cast<void*>(begin);
}

// New memory is zero.
void* calloc(std::size_t count, std::size_t size) {
  return size > 0 && count > SIZE_MAX / size ? nullptr : malloc(count * size);
}

void free(void*) {}
}
