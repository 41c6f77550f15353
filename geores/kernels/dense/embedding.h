// Rows of a table looked up by ids, on a GPU.
#pragma once

#include <cstdint>

#include "geores/kernels/device.h"

namespace geores::kernels {

struct EmbeddingShape {
  int64_t tokens, length, width;  // the tokens are sequences of `length`
  int64_t ids;                    // rows of the table
};

// out (tokens, width): token i of position p gets table[ids[i]] + rows[p]. An id that the table does
// not have ends the program, as in LibTorch.
template <class T>
void embed(CudaStream stream, const T* table, const int64_t* ids, const T* rows, T* out,
           const EmbeddingShape& shape);

// dtable[ids[i]] += dout[i], in any order.
template <class T>
void add_to_table(CudaStream stream, const int64_t* ids, const T* dout, T* dtable,
                  const EmbeddingShape& shape);

}  // namespace geores::kernels
