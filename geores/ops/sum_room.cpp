#include "geores/ops/sum_room.h"

namespace geores {
namespace {

thread_local Tensor room;
thread_local int64_t used = 0;

}  // namespace

SumRoom::SumRoom(const Tensor& x, int64_t size) : before_(room), before_used_(used) {
  room = x.is_cuda() ? torch::zeros({size}, x.options().requires_grad(false)) : Tensor();
  used = 0;
}

SumRoom::~SumRoom() {
  room = before_;
  used = before_used_;
}

Tensor take_sum_room(const Tensor& x) {
  if (!x.defined() || !room.defined() || room.scalar_type() != x.scalar_type() ||
      room.device() != x.device() || used + x.numel() > room.numel())
    return {};
  used += x.numel();
  return room.slice(0, used - x.numel(), used).view(x.sizes());
}

Tensor sums_like(const Tensor& x, const Tensor& taken) {
  if (!x.defined()) return {};
  return taken.defined() ? taken : torch::zeros_like(x, torch::MemoryFormat::Contiguous);
}

}  // namespace geores
