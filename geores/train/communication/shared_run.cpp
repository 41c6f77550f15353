#include "geores/train/communication/shared_run.h"

#include <ATen/Parallel.h>

#include "geores/base/error.h"
#include "geores/base/sha256.h"

namespace geores {
namespace {

std::string shapes_of(const torch::nn::Module& model) {
  std::string text;
  const auto add = [&](const std::string& name, const Tensor& tensor) {
    text += fmt::format("{} {}", name, c10::toString(tensor.scalar_type()));
    for (const auto size : tensor.sizes()) text += fmt::format(" {}", size);
    text += "\n";
  };
  for (const auto& parameter : model.named_parameters()) add(parameter.key(), parameter.value());
  for (const auto& buffer : model.named_buffers()) add(buffer.key(), buffer.value());
  return text;
}

}  // namespace

void require_same_run(const Communicator& communicator, const nlohmann::json& config,
                      const nlohmann::json& data, const torch::nn::Module& model) {
  if (!communicator.is_group()) return;
  auto facts = config;
  facts.erase(
      "data");  // a folder may have other names on other machines; its contents are compared
  facts["processes"] = communicator.size();
  facts["names and shapes of parameters"] = sha256(shapes_of(model)).substr(0, 16);
  for (const auto& [key, value] : data.items()) facts["data: " + key] = value;
  if (communicator.device().is_cpu()) facts["threads"] = at::get_num_threads();
  communicator.same(facts);
}

std::vector<Tensor> tensors_of(const torch::nn::Module& model) {
  auto all = model.parameters();
  for (const auto& buffer : model.buffers()) all.push_back(buffer);
  return all;
}

void broadcast_counts(const Communicator& communicator, std::vector<int64_t>& counts) {
  if (!communicator.is_group()) return;
  auto sent = torch::tensor(counts, torch::kInt64).to(communicator.device());
  communicator.broadcast(sent);
  communicator.settle();
  const auto got = sent.to(torch::kCPU);
  counts.assign(got.data_ptr<int64_t>(), got.data_ptr<int64_t>() + got.numel());
}

std::vector<int64_t> own_rows(const Communicator& communicator, const std::vector<int64_t>& batch) {
  const auto rows = static_cast<std::ptrdiff_t>(batch.size()) / communicator.size(),
             begin = rows * communicator.rank();
  return {batch.begin() + begin, batch.begin() + begin + rows};
}

void require_divisible(int64_t processes, int64_t batch, int64_t parts, const char* name_of_parts) {
  if (processes == 1)
    require(batch % parts == 0, "train", "batch {} is not divisible by {} {}", batch, name_of_parts,
            parts);
  else
    require(batch % (parts * processes) == 0, "train",
            "batch {} is not divisible by {} processes × {} {}", batch, processes, name_of_parts,
            parts);
}

}  // namespace geores
