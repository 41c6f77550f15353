#include "geores/train/communication/communicator.h"

#include <algorithm>

#include "geores/base/error.h"

namespace geores {
namespace {

class OneProcess final : public Communicator {
 public:
  OneProcess() : Communicator(0, 1) {}
  bool is_group() const override { return false; }
  void sum(Tensor&) const override {}
  void broadcast(Tensor&) const override {}
  void barrier() const override {}
  void same(const nlohmann::json&) const override {}
};

// Odd pseudo-random weights, one for each position, so that swapped values change the checksum.
Tensor checksum_weights(int64_t count, const Tensor& like) {
  const auto index = torch::arange(count, like.options().dtype(torch::kInt64));
  const auto mixed = (index + 1) * static_cast<int64_t>(0x9E3779B97F4A7C15u);
  return (mixed ^ mixed.bitwise_right_shift(29)).bitwise_or(1);
}

}  // namespace

const Communicator& one_process() {
  static const OneProcess alone;
  return alone;
}

Tensor bytes_of(const Tensor& tensor) {
  require(tensor.is_contiguous(), "communicator", "expected a contiguous tensor");
  return tensor.detach().view({-1}).view(torch::kUInt8);
}

void broadcast_all(const Communicator& communicator, const std::vector<Tensor>& tensors) {
  if (!communicator.is_group()) return;
  for (const auto& tensor : tensors) {
    if (tensor.numel() == 0) continue;
    if (tensor.is_contiguous()) {
      auto bytes = bytes_of(tensor);
      communicator.broadcast(bytes);
      continue;
    }
    const torch::NoGradGuard no_grad;
    auto copy = tensor.detach().contiguous(), bytes = bytes_of(copy);
    communicator.broadcast(bytes);
    tensor.detach().copy_(copy);
  }
}

void gather_rows(const Communicator& communicator, const Tensor& whole) {
  const auto size = communicator.size();
  require(whole.dim() >= 1 && whole.size(0) % size == 0, "communicator",
          "{} rows cannot be split among {} processes", whole.size(0), size);
  if (size == 1 || whole.numel() == 0) return;
  auto bytes = bytes_of(whole);
  const auto part = bytes.numel() / size, begin = communicator.rank() * part;
  bytes.slice(0, 0, begin).zero_();
  bytes.slice(0, begin + part).zero_();
  communicator.sum(bytes);
}

std::vector<double> gather_numbers(const Communicator& communicator,
                                   const std::vector<double>& own) {
  if (communicator.size() == 1) return own;
  auto sent = torch::tensor(own, torch::kFloat64).to(communicator.device());
  communicator.sum(sent);
  communicator.settle();
  const auto all = sent.to(torch::kCPU);
  return {all.data_ptr<double>(), all.data_ptr<double>() + all.numel()};
}

Tensor checksum(const Tensor& tensor) {
  const torch::NoGradGuard no_grad;
  constexpr int64_t kBlock = 1 << 20;
  const auto flat = tensor.detach().contiguous().view({-1});
  const auto weights = checksum_weights(std::min(kBlock, flat.numel()), flat);
  auto sum = torch::zeros({1}, weights.options());
  for (int64_t begin = 0; begin < flat.numel(); begin += kBlock) {
    const auto block = flat.slice(0, begin, std::min(begin + kBlock, flat.numel()));
    const auto bits = block.element_size() == 8   ? block.view(torch::kInt64)
                      : block.element_size() == 4 ? block.view(torch::kInt32)
                                                  : block.view(torch::kUInt8);
    for (int64_t at = 0; at < bits.numel(); at += weights.numel()) {
      const auto piece = bits.slice(0, at, std::min(at + weights.numel(), bits.numel()));
      sum = sum * static_cast<int64_t>(0x100000001B3) +
            (piece.to(torch::kInt64) * weights.slice(0, 0, piece.numel())).sum();
    }
  }
  return sum;
}

void require_same_values(const Communicator& communicator, const std::vector<Tensor>& tensors,
                         const std::string& when) {
  if (communicator.size() == 1) return;
  std::vector<Tensor> sums;
  for (const auto& tensor : tensors)
    if (tensor.numel() > 0) sums.push_back(checksum(tensor));
  const auto own = checksum(torch::cat(sums));
  auto all = torch::zeros({communicator.size()}, own.options());
  all[communicator.rank()] = own[0];
  communicator.sum(all);
  communicator.settle();
  const auto on_host = all.to(torch::kCPU);
  for (int64_t rank = 1; rank < communicator.size(); ++rank)
    require(on_host[rank].item<int64_t>() == on_host[0].item<int64_t>(), "train",
            "the weights of ranks 0 and {} differ {}: their machines do not compute alike", rank,
            when);
}

}  // namespace geores
