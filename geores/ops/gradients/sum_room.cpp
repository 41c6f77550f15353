#include "geores/ops/gradients/sum_room.h"

#include "geores/base/error.h"

namespace geores {
namespace {

struct Room {
  Tensor values, gradients, others;             // the others when they are first asked for
  int64_t more = 0, used = 0;                   // of the others
  std::vector<std::pair<Tensor, Tensor>> made;  // of parameters, and the places of their gradients
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

// Where four neighbours are aligned, for kernels that add them together.
Tensor take_others(const Tensor& like) {
  const auto begin = (room.used + 3) / 4 * 4;
  if (begin + like.numel() > room.more) return {};
  if (!room.others.defined())
    room.others = torch::zeros({room.more}, room.values.options().requires_grad(false));
  room.used = begin + like.numel();
  return piece(room.others, begin, like);
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
          .made = {},
          .weights = c10::make_intrusive<WeightGradients>()};
}

SumRoom::~SumRoom() {
  if (room.weights) room.weights->drop();
  room = {};
}

void SumRoom::finish() {
  if (room.weights) room.weights->finish();
}

Tensor take_sum_room(const Tensor& x) { return has_room_like(x) ? take_others(x) : Tensor(); }

Tensor make_gradient_place(const Tensor& x) {
  if (!room.values.defined() || room.values.device() != x.device() || !x.is_contiguous()) return {};
  const auto place = take_others(x);
  // Kept, so that nothing else comes to lie where x does; without what autograd knows of it.
  if (place.defined()) room.made.emplace_back(x.detach(), place);
  return place;
}

Tensor gradient_place(const Tensor& x) {
  if (x.defined() && x.is_contiguous())
    for (const auto& [made, place] : room.made)
      if (made.data_ptr() == x.data_ptr() && made.sizes() == x.sizes()) return place;
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
