// Tensors in files: a module's parameters and buffers as safetensors, bit for bit, and single
// tensors as .npy.
#pragma once

#include <filesystem>
#include <string>

#include "geores/base/formats/safetensors.h"
#include "geores/ops/torch.h"

namespace geores {

using torch::Tensor;

Tensor to_tensor(const TensorView& view);  // a copy on the CPU
Tensor load_npy_tensor(const std::filesystem::path& path);
void save_npy_tensor(const std::filesystem::path& path, const Tensor& tensor);

// The values are read when the file is written, piece by piece, and must not change before: a
// tensor on a GPU is never in the CPU's memory as a whole.
void add_tensor(SafetensorsWriter& writer, const std::string& name, const Tensor& tensor);

// The same, but float32 values that bfloat16 holds exactly are written as bfloat16.
void add_tensor_in_fewest_bytes(SafetensorsWriter& writer, const std::string& name,
                                const Tensor& tensor);

// Names as in named_parameters() and named_buffers(), after `prefix`.
void add_state(SafetensorsWriter& writer, const torch::nn::Module& module,
               const std::string& prefix = "");

// Strict: every tensor must be there with the module's shape and dtype; tensors under `prefix` that
// the module does not have are refused. Nothing is changed unless all of it fits.
void load_state(torch::nn::Module& module, const Safetensors& file, const std::string& where,
                const std::string& prefix = "");

}  // namespace geores
