// Tokens that a GPU holds have the gradients of routes and streams in several kernels, on the same state in
// bfloat16; a few values differ by its rounding.
#include "geores/ops/routed/held.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "geores/ops/run/execution.h"
#include "geores/ops/streams/streams.h"

namespace geores {
namespace {

using Kind = ReadNormSpec::Kind;

struct HeldCase {
  int64_t d, tokens, others;
  Kind kind = Kind::layer;
};

struct Inputs {
  Tensor x, norm_weight, mixer, map;
  std::vector<ProjectionWeights> projections;
  std::vector<Tensor> all;

  explicit Inputs(const HeldCase& c) {
    const auto like = torch::TensorOptions().device(torch::kCUDA);
    const auto learned = [&](at::IntArrayRef sizes, double scale) {
      all.push_back((scale * torch::randn(sizes, like)).requires_grad_());
      return all.back();
    };
    const auto width = 4 * c.d;
    x = torch::randn({1, c.tokens, 4, c.d}, like).to(torch::kBFloat16).requires_grad_();
    all.push_back(x);
    for (const int64_t count : {int64_t(4), int64_t(4), c.others})
      if (count > 0)
        projections.push_back({learned({count, width}, 1 / std::sqrt(static_cast<double>(width))),
                               learned({count}, 1), learned({1}, 1)});
    norm_weight = learned({c.d}, 1);
    mixer = learned({std::max<int64_t>(c.others, 1), 16}, 0.3);
    map = learned({c.d}, 1);
  }
};

// A mixer that depends on the routes, a sublayer that depends on what is read, and a second use of both.
Tensor result(const Inputs& in, const HeldCase& c, bool holds) {
  const ReadNormSpec norm{.kind = c.kind, .weight = in.norm_weight, .epsilon = 1e-5};
  const auto res_of = [&](const Tensor& others) {
    const auto made =
        c.others > 0 ? others.matmul(in.mixer) : in.mixer.expand({1, c.tokens, 16}).contiguous();
    return torch::tanh(made).unflatten(-1, {4, 4});
  };
  const auto sublayer = [&](const Tensor& h) {
    return torch::tanh(h * in.map.to(h.scalar_type()));
  };
  if (holds) {
    const auto held = HeldStreams::make(in.x, 1e-3, in.projections, 0.125, norm);
    EXPECT_TRUE(held);
    if (!held) return {};
    return held->write(res_of(held->routes().others), sublayer(held->read())) +
           held->read().unsqueeze(2);
  }
  const auto made = wide_sigmoid_routes(join_streams(in.x), 1e-3, in.projections, 4, 0.125);
  const auto& [routes, skip] = *made;
  const auto wide = WideStreams::make({res_of(routes.others), routes.read, routes.write},
                                      split_streams(skip, 4), norm);
  return wide->write(sublayer(wide->read())) + wide->read().unsqueeze(2);
}

TEST(Held, TokensHaveTheGradientsOfSeveralKernels) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no GPU";
  const ExecutionScope precision(Precision::bf16_state);
  // One, two, four and eight blocks in a cluster; less than a tile of tokens, and several rounds.
  for (const auto& c : {HeldCase{96, 5, 16},
                        {192, 300, 0},
                        {384, 70, 9},
                        {768, 1100, 16},
                        {768, 33, 24},
                        {768, 16, 0},
                        {1024, 700, 16},
                        {512, 130, 24},
                        {8, 50, 16},
                        {768, 600, 16, Kind::rms},
                        {768, 600, 16, Kind::none},
                        {1536, 20, 16}}) {
    torch::manual_seed(9);
    const Inputs in(c);
    const auto cotangent = torch::randn_like(in.x);
    const auto gradients = [&](bool holds) {
      return torch::autograd::grad({result(in, c, holds)}, in.all, {cotangent}, {}, false,
                                   /*allow_unused=*/true);
    };
    const auto apart = gradients(false), held = gradients(true);
    for (size_t i = 0; i < in.all.size(); ++i) {
      if (!apart[i].defined()) continue;
      const auto wanted = apart[i].to(torch::kFloat32),
                 difference = held[i].to(torch::kFloat32) - wanted;
      EXPECT_LT(difference.norm().item<double>(), 6e-3 * wanted.norm().item<double>() + 1e-6)
          << "d " << c.d << " tokens " << c.tokens << " others " << c.others << " norm "
          << static_cast<int>(c.kind) << " input " << i;
    }
  }
}

// What is not read has no gradient from there, and what is not written none from there.
TEST(Held, ReadingAloneAndWritingAloneHaveTheirGradients) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no GPU";
  const ExecutionScope precision(Precision::bf16_state);
  const HeldCase c{768, 20, 16};
  torch::manual_seed(9);
  const Inputs in(c);
  for (const bool reads : {true, false}) {
    const auto held = HeldStreams::make(in.x, 1e-3, in.projections, 0, {.weight = in.norm_weight});
    ASSERT_TRUE(held);
    const auto made = wide_sigmoid_routes(join_streams(in.x), 1e-3, in.projections, 4, 0);
    const auto res = torch::eye(4, in.map.options()).expand({1, 20, 4, 4}).contiguous();
    const auto wide = WideStreams::make({res, made->routes.read, made->routes.write},
                                        split_streams(made->skip, 4), {.weight = in.norm_weight});
    const auto y = torch::ones({1, 20, 768}, in.x.options());
    const auto mine = reads ? held->read() : held->write(res, y),
               other = reads ? wide->read() : wide->write(y);
    const auto a = torch::autograd::grad({mine}, {in.x}, {torch::ones_like(mine)}),
               b = torch::autograd::grad({other}, {in.x}, {torch::ones_like(other)});
    EXPECT_LT((a[0] - b[0]).to(torch::kFloat32).norm().item<double>(),
              1e-2 * b[0].to(torch::kFloat32).norm().item<double>())
        << reads;
  }
}

}  // namespace
}  // namespace geores
