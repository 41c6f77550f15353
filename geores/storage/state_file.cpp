#include "geores/storage/state_file.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>

#include "geores/base/error.h"
#include "geores/base/formats/npy.h"

namespace geores {
namespace {

struct DtypePair {
  Dtype file;
  torch::ScalarType tensor;
};
constexpr DtypePair kDtypes[] = {{Dtype::f64, torch::kFloat64}, {Dtype::f32, torch::kFloat32},
                                 {Dtype::f16, torch::kFloat16}, {Dtype::bf16, torch::kBFloat16},
                                 {Dtype::i64, torch::kInt64},   {Dtype::i32, torch::kInt32},
                                 {Dtype::i16, torch::kInt16},   {Dtype::i8, torch::kInt8},
                                 {Dtype::u8, torch::kUInt8},    {Dtype::boolean, torch::kBool}};

Dtype file_dtype(torch::ScalarType type, const std::string& name) {
  for (const auto& pair : kDtypes)
    if (pair.tensor == type) return pair.file;
  fail("tensor", "'{}' has a type that no file here can hold: {}", name, torch::toString(type));
}

std::span<const std::byte> bytes_of(const Tensor& contiguous) {
  return {static_cast<const std::byte*>(contiguous.data_ptr()), contiguous.nbytes()};
}

constexpr int64_t kPiece = int64_t{1} << 24;  // values: 64 MB of float32

// False as soon as `visit` says false of a piece.
bool visit_pieces(const Tensor& tensor, const std::function<bool(const Tensor&)>& visit) {
  const auto flat = tensor.contiguous().view(-1);
  for (int64_t begin = 0; begin < flat.numel(); begin += kPiece)
    if (!visit(flat.narrow(0, begin, std::min(kPiece, flat.numel() - begin)))) return false;
  return true;
}

bool survives_bfloat16(const Tensor& tensor) {
  return tensor.scalar_type() == torch::kFloat32 &&
         visit_pieces(tensor.detach(), [](const Tensor& piece) {
           return piece.to(torch::kBFloat16).to(torch::kFloat32).equal(piece);
         });
}

void add_tensor_as(SafetensorsWriter& writer, const std::string& name, const Tensor& tensor,
                   torch::ScalarType type) {
  const auto source = [values = tensor.detach(), type](const ByteSink& sink) {
    visit_pieces(values, [&](const Tensor& piece) {
      const auto plain = piece.to(type).to(torch::kCPU);
      sink(bytes_of(plain));
      return true;
    });
  };
  writer.add_source(name, file_dtype(type, name), tensor.sizes().vec(), source);
}

std::map<std::string, Tensor> named_state(const torch::nn::Module& module) {
  std::map<std::string, Tensor> state;
  for (const auto& item : module.named_parameters()) state.emplace(item.key(), item.value());
  for (const auto& item : module.named_buffers()) state.emplace(item.key(), item.value());
  return state;
}

}  // namespace

Tensor to_tensor(const TensorView& view) {
  for (const auto& pair : kDtypes) {
    if (pair.file != view.dtype) continue;
    auto tensor = torch::empty(view.shape, pair.tensor);
    if (!view.bytes.empty()) std::memcpy(tensor.data_ptr(), view.bytes.data(), view.bytes.size());
    return tensor;
  }
  fail("tensor", "no tensor type for dtype {}", static_cast<int>(view.dtype));
}

Tensor load_npy_tensor(const std::filesystem::path& path) {
  const auto array = load_npy(path);
  return to_tensor({.dtype = array.dtype, .shape = array.shape, .bytes = array.bytes});
}

void save_npy_tensor(const std::filesystem::path& path, const Tensor& tensor) {
  const auto plain = tensor.detach().to(torch::kCPU).contiguous();
  const auto bytes = bytes_of(plain);
  save_npy(path, {.dtype = file_dtype(plain.scalar_type(), path.string()),
                  .shape = plain.sizes().vec(),
                  .bytes = {bytes.begin(), bytes.end()}});
}

void add_tensor(SafetensorsWriter& writer, const std::string& name, const Tensor& tensor) {
  add_tensor_as(writer, name, tensor, tensor.scalar_type());
}

void add_tensor_in_fewest_bytes(SafetensorsWriter& writer, const std::string& name,
                                const Tensor& tensor) {
  add_tensor_as(writer, name, tensor,
                survives_bfloat16(tensor) ? torch::kBFloat16 : tensor.scalar_type());
}

void add_state(SafetensorsWriter& writer, const torch::nn::Module& module,
               const std::string& prefix) {
  for (const auto& [name, tensor] : named_state(module)) add_tensor(writer, prefix + name, tensor);
}

void load_state(torch::nn::Module& module, const Safetensors& file, const std::string& where,
                const std::string& prefix) {
  const auto state = named_state(module);
  for (const auto& name : file.names())
    if (name.starts_with(prefix) && !state.contains(name.substr(prefix.size())))
      fail(where, "tensor '{}' does not belong to this model", name);

  std::vector<std::pair<Tensor, Tensor>> copies;
  for (const auto& [name, target] : state) {
    const auto& view = file.at(prefix + name);
    const auto source = to_tensor(view);
    require(source.sizes() == target.sizes(), where, "tensor '{}' has shape [{}], expected [{}]",
            prefix + name, fmt::join(source.sizes(), ", "), fmt::join(target.sizes(), ", "));
    require(source.scalar_type() == target.scalar_type(), where,
            "tensor '{}' has dtype {}, expected {}", prefix + name,
            torch::toString(source.scalar_type()), torch::toString(target.scalar_type()));
    copies.emplace_back(target, source);
  }
  torch::NoGradGuard no_grad;
  for (auto& [target, source] : copies) target.copy_(source);
}

}  // namespace geores
