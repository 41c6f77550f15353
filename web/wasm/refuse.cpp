// Converts a thrown geores::Error for the browser. WebAssembly as Debian's clang builds it has
// no unwinder, so nothing can be caught there: the text of the exception goes to the page, which
// throws it as an error of its own. This instance of the module is then in the middle of something;
// the page drops it and makes another.
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "web/wasm/exports.h"

extern "C" {

__attribute__((import_module("page"), import_name("refuse"), noreturn)) void page_refuse(
    const char* text, std::size_t length);

void* __cxa_allocate_exception(std::size_t size) noexcept { return std::malloc(size); }

[[noreturn]] void __cxa_throw(void* thrown, void*, void (*)(void*)) {
  const char* text = static_cast<std::exception*>(thrown)->what();
  page_refuse(text, std::strlen(text));
}
}

// The C++ library's own handlers of a failed invariant print a demangled name: 150 kilobytes that
// are never shown.
extern "C" {
[[noreturn]] static void give_up() { geores::web::stop("[explorer] out of memory"); }
void (*__cxa_terminate_handler)() = give_up;
void (*__cxa_unexpected_handler)() = give_up;
void (*__cxa_new_handler)() = give_up;
// A call through a half-made object: the library's own handler would bring printf, 15 kilobytes.
[[noreturn]] void __cxa_pure_virtual() { geores::web::stop("[explorer] a call without a target"); }
[[noreturn]] void __cxa_deleted_virtual() { __cxa_pure_virtual(); }
}

namespace geores::web {

void stop(const char* line) { page_refuse(line, std::strlen(line)); }

}  // namespace geores::web

namespace geores::portable {

[[noreturn]] void end_with(const char* line);
void end_with(const char* line) { geores::web::stop(line); }

}  // namespace geores::portable
