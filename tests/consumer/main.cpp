// A user's program: a sublayer of their own, wrapped in every connection of the library.
#include <torch/torch.h>

#include <cstdio>

#include "geores/manifold/cayley.h"
#include "geores/residual/registry.h"

int main() {
  for (const auto& connection : geores::connections()) {
    auto residual = geores::make_residual(connection.name, {.width = 32, .streams = 4});
    const auto& traits = residual->traits();
    auto mine = torch::nn::Linear(traits.sublayer_width, traits.sublayer_width);

    geores::Trace trace;
    auto x = geores::to_state(traits, torch::randn({2, 5, 32}));
    x = residual->forward(
        x, [&](const torch::Tensor& h) { return mine(h); }, trace);
    auto loss = geores::from_state(traits, x).square().mean();
    if (trace.loss().defined()) loss = loss + trace.loss();
    loss.backward();
    if (!mine->weight.grad().defined()) {
      std::printf("%s: no gradient reached the sublayer\n", connection.name.c_str());
      return 1;
    }
  }
  std::printf("wrapped one sublayer in %zu connections\n", geores::connections().size());
  return 0;
}
