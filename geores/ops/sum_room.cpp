#include "geores/ops/sum_room.h"

#include "geores/base/error.h"

namespace geores {
namespace {

struct Room {
  Tensor values, gradients, others;  // the others when they are first asked for
  int64_t more = 0, used = 0;        // of the others
  c10::intrusive_ptr<WeightGradients> weights;
};
thread_local Room room;

bool has_room_like(const Tensor& x) {
  return x.defined() && room.values.defined() && room.values.scalar_type() == x.scalar_type() &&
         room.values.device() == x.device();
}

}  // namespace

SumRoom::SumRoom(const Tensor& values, const Tensor& gradients, int64_t more) {
  require(!room.values.defined(), "sum_room", "a thread has one room at a time");
  if (!values.is_cuda()) return;
  room = {.values = values.detach(),
          .gradients = gradients,
          .others = {},
          .more = more,
          .used = 0,
          .weights = c10::make_intrusive<WeightGradients>()};
}

SumRoom::~SumRoom() { room = {}; }

void SumRoom::finish() {
  if (room.weights) room.weights->finish();
}

Tensor take_sum_room(const Tensor& x) {
  if (!has_room_like(x) || room.used + x.numel() > room.more) return {};
  if (!room.others.defined())
    room.others = torch::zeros({room.more}, room.values.options().requires_grad(false));
  room.used += x.numel();
  return room.others.slice(0, room.used - x.numel(), room.used).view(x.sizes());
}

Tensor sums_like(const Tensor& x, const Tensor& taken) {
  if (!x.defined()) return {};
  // A tensor of its own: autograd copies a gradient that somebody else holds too.
  return taken.defined() ? taken.view(taken.sizes())
                         : torch::zeros_like(x, torch::MemoryFormat::Contiguous);
}

Tensor gradient_place(const Tensor& x) {
  if (!has_room_like(x) || !x.is_contiguous()) return {};
  const auto* first = static_cast<const char*>(room.values.data_ptr());
  const auto* at = static_cast<const char*>(x.data_ptr());
  const auto place = (at - first) / static_cast<int64_t>(room.values.element_size());
  if (at < first || place + x.numel() > room.values.numel()) return {};
  return room.gradients.slice(0, place, place + x.numel()).view(x.sizes());
}

ParameterSum parameter_sum(const Tensor& parameter, const Tensor& place) {
  if (place.defined()) return {.sum = place, .gradient = {}};
  const auto zeros = sums_like(parameter, {});
  return {.sum = zeros, .gradient = zeros};
}

c10::intrusive_ptr<WeightGradients> weight_gradients() { return room.weights; }

}  // namespace geores
