// Which vector instructions the processor's kernels were compiled for. On x86_64 the dynamic linker
// chooses among several libraries when the program starts (CMakeLists.txt of kernels/).
#pragma once

namespace geores::kernels {

// "AVX-512", "AVX2", "SSE2", "NEON", or "vectors of 16 bytes" elsewhere.
const char* vector_instructions();

}  // namespace geores::kernels
