// How a computation becomes an export. It is a struct of doubles, inputs first, and a function that
// fills the outputs; the page writes the inputs, calls, and reads the outputs, all in place:
//   double* NAME_data();  int NAME_size();  void NAME_compute();
//
//   #define SKEW_FIELDS(IN, OUT) IN(ux, 1) IN(uy, 1) OUT(mu, 1)
//   GEORES_EXPORT(skew, SKEW_FIELDS) { skew.mu = skew.ux * skew.uy; }
//
// A native build also lists all computations (Computation::first): fixtures.cpp prints their fields
// and values, and the page's bindings are tested against both.
#pragma once

#include <iterator>
#include <stdexcept>

#if defined(__wasm__)
#define GEORES_EXPORTED(name) extern "C" __attribute__((export_name(#name)))
#else
#define GEORES_EXPORTED(name) extern "C"
#endif

namespace geores::web {

template <int N>
struct Values {
  double at[N];

  double& operator[](int i) { return at[i]; }
  const double& operator[](int i) const { return at[i]; }
};

template <>
struct Values<1> {
  double value;

  Values& operator=(double other) {
    value = other;
    return *this;
  }
  operator double() const { return value; }
  explicit operator int() const { return static_cast<int>(value); }
};

// Refuses without the machinery of exceptions, which costs a small module twenty kilobytes.
#if defined(__wasm__)
[[noreturn]] void stop(const char* line);
#else
[[noreturn]] inline void stop(const char* line) { throw std::runtime_error(line); }
#endif

#if !defined(__wasm__)
struct Field {
  const char* name;
  int count;
  bool input;
};

struct Computation {
  const char* module;
  const char* name;
  const Field* fields;
  int field_count;
  double* data;
  void (*compute)();
  Computation* next = nullptr;

  inline static Computation* first = nullptr;

  Computation(const char* in_module, const char* own_name, const Field* its_fields, int count,
              double* values, void (*function)())
      : module(in_module),
        name(own_name),
        fields(its_fields),
        field_count(count),
        data(values),
        compute(function) {
    auto** end = &first;
    while (*end != nullptr) end = &(*end)->next;
    *end = this;
  }
};
#endif

}  // namespace geores::web

#define GEORES_MEMBER(name, count) geores::web::Values<count> name;
#define GEORES_INPUT(name, count) {#name, count, true},
#define GEORES_OUTPUT(name, count) {#name, count, false},

#if defined(__wasm__)
#define GEORES_LIST(name, fields)
#else
// GEORES_MODULE, the module's name, comes from the build.
#define GEORES_LIST(name, fields)                                                       \
  namespace {                                                                           \
  const geores::web::Field name##_fields[] = {fields(GEORES_INPUT, GEORES_OUTPUT)};     \
  const geores::web::Computation name##_listed(GEORES_MODULE, #name, name##_fields,     \
                                               std::size(name##_fields), name##_data(), \
                                               name##_compute);                         \
  }
#endif

#define GEORES_EXPORT(name, fields)                                                               \
  namespace {                                                                                     \
  struct name##_struct {                                                                          \
    fields(GEORES_MEMBER, GEORES_MEMBER)                                                          \
  } name;                                                                                         \
  }                                                                                               \
  GEORES_EXPORTED(name##_data) double* name##_data() { return reinterpret_cast<double*>(&name); } \
  GEORES_EXPORTED(name##_size) int name##_size() { return sizeof(name) / sizeof(double); }        \
  GEORES_EXPORTED(name##_compute) void name##_compute();                                          \
  GEORES_LIST(name, fields)                                                                       \
  GEORES_EXPORTED(name##_compute) void name##_compute()
