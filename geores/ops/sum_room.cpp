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

// With a version of its own: what is added to one piece must not make autograd refuse the others,
// which operations keep for their backward passes.
Tensor piece(const Tensor& flat, int64_t begin, const Tensor& like) {
  return flat.slice(0, begin, begin + like.numel()).view(like.sizes()).variable_data();
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

SumRoom::~SumRoom() {
  if (room.weights) room.weights->drop();
  room = {};
}

void SumRoom::finish() {
  if (room.weights) room.weights->finish();
}

Tensor take_sum_room(const Tensor& x) {
  if (!has_room_like(x) || room.used + x.numel() > room.more) return {};
  if (!room.others.defined())
    room.others = torch::zeros({room.more}, room.values.options().requires_grad(false));
  room.used += x.numel();
  return piece(room.others, room.used - x.numel(), x);
}

Tensor gradient_place(const Tensor& x) {
  if (!has_room_like(x) || !x.is_contiguous()) return {};
  const auto* first = static_cast<const char*>(room.values.data_ptr());
  const auto* at = static_cast<const char*>(x.data_ptr());
  const auto place = (at - first) / static_cast<int64_t>(room.values.element_size());
  if (at < first || place + x.numel() > room.values.numel()) return {};
  return piece(room.gradients, place, x);
}

ParameterSum parameter_sum(const Tensor& parameter, const Tensor& place) {
  if (place.defined()) return {.sum = place, .gradient = {}};
  if (!parameter.defined()) return {};
  const auto zeros = torch::zeros_like(parameter, torch::MemoryFormat::Contiguous);
  return {.sum = zeros, .gradient = zeros};
}

c10::intrusive_ptr<WeightGradients> weight_gradients() { return room.weights; }

}  // namespace geores
