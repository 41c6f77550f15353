#include "geores/kernels/cpu/instructions.h"

namespace geores::kernels {

const char* vector_instructions() {
#if defined(__AVX512F__)
  return "AVX-512";
#elif defined(__AVX2__)
  return "AVX2";
#elif defined(__x86_64__)
  return "SSE2";
#elif defined(__aarch64__)
  return "NEON";
#else
  return "vectors of 16 bytes";
#endif
}

}  // namespace geores::kernels
