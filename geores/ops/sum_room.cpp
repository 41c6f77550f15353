#include "geores/ops/sum_room.h"

#include <set>

#include "geores/base/error.h"

namespace geores {
namespace {

struct Room {
  Tensor values, gradients, others;
  int64_t used = 0;         // of the others
  std::set<int64_t> given;  // where gradients begin that were asked for
};
thread_local Room room;

// Where x lies among the parameters, or -1.
int64_t place_of(const Tensor& x) {
  if (!room.gradients.defined() || !x.is_contiguous()) return -1;
  const auto* first = static_cast<const char*>(room.values.data_ptr());
  const auto* at = static_cast<const char*>(x.data_ptr());
  const auto place = (at - first) / room.values.element_size();
  return at >= first && place + x.numel() <= room.values.numel() ? place : -1;
}

}  // namespace

SumRoom::SumRoom(const Tensor& values, const Tensor& gradients, int64_t more) {
  require(!room.values.defined(), "sum_room", "a thread has one room at a time");
  if (!values.is_cuda()) return;
  room = {.values = values.detach(),
          .gradients = gradients,
          .others = torch::zeros({more}, values.options().requires_grad(false)),
          .used = 0,
          .given = {}};
}

SumRoom::~SumRoom() { room = {}; }

Tensor take_sum_room(const Tensor& x) {
  if (!x.defined() || !room.values.defined() || room.values.scalar_type() != x.scalar_type() ||
      room.values.device() != x.device())
    return {};
  if (const auto place = place_of(x); place >= 0 && room.given.insert(place).second)
    return room.gradients.slice(0, place, place + x.numel()).view(x.sizes());
  if (room.used + x.numel() > room.others.numel()) return {};
  room.used += x.numel();
  return room.others.slice(0, room.used - x.numel(), room.used).view(x.sizes());
}

Tensor sums_like(const Tensor& x, const Tensor& taken) {
  if (!x.defined()) return {};
  // A tensor of its own: autograd copies a gradient that somebody else holds too.
  return taken.defined() ? taken.view(taken.sizes())
                         : torch::zeros_like(x, torch::MemoryFormat::Contiguous);
}

}  // namespace geores
