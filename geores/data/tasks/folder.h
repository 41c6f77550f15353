// folder: a user's own sequences, train_x.npy, train_y.npy, val_x.npy and val_y.npy in one folder.
// float32 or float64 (N, T, d), stored as float32. x and y of a set have one shape, both sets one
// length and width, and every number is finite. The counts, where given, take the first sequences.
// Refused in one line, for example:
//   [mine/val_x.npy] shape [0, 3, 4] holds no sequences
//   [mine] train_x.npy has shape [2, 3, 4], train_y.npy has shape [2, 3, 5]
//   [mine/train_x.npy] the number at [0, 3, 1] is nan: only finite float32 numbers can be ...
#pragma once

#include "geores/data/task.h"

namespace geores {

Task folder_task();

}  // namespace geores
