// One token at a time: no allocation after the first step, and much cheaper than the whole window.
#include "geores/model/transformer/cached_decoder.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>

#include "geores/base/error.h"

namespace {

std::atomic<int64_t> allocations = 0;

}  // namespace

// Counts every heap allocation. A sanitizer replaces these functions itself.
#if !defined(__SANITIZE_ADDRESS__)
extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);

void* malloc(size_t size) {
  ++allocations;
  return __libc_malloc(size);
}
void* calloc(size_t count, size_t size) {
  ++allocations;
  return __libc_calloc(count, size);
}
void* realloc(void* block, size_t size) {
  ++allocations;
  return __libc_realloc(block, size);
}
int posix_memalign(void** block, size_t alignment, size_t size) {
  ++allocations;
  *block = __libc_memalign(alignment, size);
  return *block ? 0 : 12;
}
}
#endif

namespace geores {
namespace {

TransformerConfig causal_model(const std::string& connection) {
  TransformerConfig config{.connection = connection, .layers = 3, .width = 64, .context = 256};
  if (connection == "edelta") config.options = {{"pool", "causal"}, {"gate", "entropy"}};
  return config;
}

// Connections with a form for one token.
const auto kInBuffers = {"additive", "edelta", "hc",  "mhc",       "mhc_lite",
                         "shc",      "mgt",    "ddl", "mhc_split", "jpmhc"};

TEST(CachedDecoder, AllocatesNothingAfterTheFirstStep) {
  for (const auto* connection : kInBuffers)
    for (const int64_t batch : {1, 3}) {
      torch::manual_seed(1);
      Transformer model(causal_model(connection));
      CachedDecoder decoder(model, batch);
      ASSERT_TRUE(decoder.in_place()) << connection;
      const auto x = torch::randn({batch, 16});
      decoder.step(x);
#if !defined(__SANITIZE_ADDRESS__)
      ASSERT_GT(allocations, 0);  // verifies the counter
      const int64_t before = allocations;
      for (int t = 0; t < 50; ++t) decoder.step(x);
      EXPECT_EQ(allocations - before, 0) << connection << " batch " << batch;
#endif
    }
}

TEST(CachedDecoder, AStepIsTenTimesFasterThanTheWindow) {
  for (const auto* connection : {"additive", "edelta", "shc", "mhc"}) {
    torch::manual_seed(1);
    Transformer model(causal_model(connection));
    torch::NoGradGuard no_grad;
    const auto x = torch::randn({1, 256, 16});
    const auto seconds = [](auto&& f) {
      const auto start = std::chrono::steady_clock::now();
      f();
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    };
    Trace trace;
    model.forward(x, trace);
    double window = 1e9;
    for (int i = 0; i < 3; ++i)
      window = std::min(window, seconds([&] { model.forward(x, trace); }));
    CachedDecoder decoder(model);
    // The slowest part of the sequence, but its fastest step: other processes may interrupt.
    double step = 1e9;
    for (int64_t t = 0; t < 256; ++t) {
      const auto here = seconds([&] { decoder.step(x.select(1, t)); });
      if (t >= 128) step = std::min(step, here);
    }
    EXPECT_GT(window / step, 10.0) << connection;
  }
}

// Reading at once or one by one gives the same results, and the same continuation.
TEST(CachedDecoder, GoesOnInBuffersAfterAPassOverTheWholePrompt) {
  for (const auto* connection : kInBuffers)
    for (const int64_t batch : {1, 3}) {
      torch::manual_seed(1);
      Transformer model(causal_model(connection));
      model.to(torch::kFloat64);
      CachedDecoder at_once(model, batch), one_by_one(model, batch);
      ASSERT_TRUE(at_once.in_place());
      const auto x = torch::randn({batch, 30, 16}, torch::kFloat64);
      const auto first = at_once.read(x.slice(1, 0, 20)).clone();
      for (int64_t t = 0; t < 19; ++t) one_by_one.step(x.select(1, t));
      EXPECT_TRUE(torch::allclose(first, one_by_one.step(x.select(1, 19)), 1e-10, 1e-12))
          << connection;
      for (int64_t t = 20; t < 30; ++t) {
        const auto a = at_once.step(x.select(1, t)), b = one_by_one.step(x.select(1, t));
        EXPECT_TRUE(torch::allclose(a, b, 1e-10, 1e-12)) << connection << " position " << t;
      }
      EXPECT_EQ(at_once.position(), 30);
    }
}

// Widths with kernels of their own, without, and above any kernel's.
TEST(CachedDecoder, TakesAnyNumberOfStreams) {
  struct Case {
    std::string connection;
    nlohmann::json options;
    std::vector<int64_t> in_buffers, on_tensors;  // numbers of streams
  };
  const std::vector<Case> cases = {
      {"hc", {{"dynamic", true}}, {1, 2, 5, 6, 16}, {17}},
      {"hc", {{"dynamic", false}}, {1, 5, 16}, {17}},
      {"hc", {{"form", "sigmoid"}}, {1, 5, 16}, {17}},
      {"mhc", nullptr, {2, 16}, {1, 5, 17}},
      {"mhc", {{"sinkhorn_order", "columns_last"}, {"logit_bound", 0.1}}, {4}, {5}},
      {"mhc", {{"mixer", "identity"}}, {1, 2, 5, 16}, {17}},
      {"mhc", {{"form", "v4"}}, {}, {4}},
      {"mhc", {{"form", "v41"}}, {}, {2, 4}},
      {"mhc", {{"head", "learned"}}, {}, {4, 17}},
      {"mhc_lite", nullptr, {1, 2, 5}, {}},
      {"shc", nullptr, {3, 16}, {2, 5}},
      {"shc", {{"fixed_amplitude", false}}, {}, {4}},
      {"jpmhc", {{"mixer", "cayley"}}, {4, 16}, {}},
      {"jpmhc", {{"mixer", "permutation"}}, {}, {4}},
      {"mhc_split", nullptr, {4, 16}, {}},
      {"ddl", nullptr, {4, 17}, {}}};
  const auto expect_steps_of_forward = [](const Case& c, int64_t streams, bool in_buffers) {
    torch::manual_seed(1);
    Transformer model({.connection = c.connection,
                       .layers = 2,
                       .width = 32,
                       .heads = 2,
                       .streams = streams,
                       .context = 4,
                       .options = c.options});
    model.to(torch::kFloat64);
    torch::NoGradGuard no_grad;
    for (auto& parameter : model.parameters()) parameter.add_(0.1 * torch::randn_like(parameter));
    const auto x = torch::randn({2, 4, 16}, torch::kFloat64);
    Trace trace;
    const auto expected = model.forward(x, trace);
    CachedDecoder decoder(model, 2);
    EXPECT_EQ(decoder.in_place(), in_buffers)
        << c.connection << c.options << " streams " << streams;
    for (int64_t t = 0; t < 4; ++t)
      EXPECT_TRUE(torch::allclose(decoder.step(x.select(1, t)), expected.select(1, t), 1e-9, 1e-11))
          << c.connection << c.options << " streams " << streams << " position " << t;
  };
  for (const auto& c : cases) {
    for (const auto streams : c.in_buffers) expect_steps_of_forward(c, streams, true);
    for (const auto streams : c.on_tensors) expect_steps_of_forward(c, streams, false);
  }
}

// Weights in buffers keep their addresses and values.
TEST(CachedDecoder, IsItsOwnWhenTheModelMovesToAnotherType) {
  for (const auto* connection : kInBuffers) {
    torch::manual_seed(1);
    Transformer model(causal_model(connection));
    torch::NoGradGuard no_grad;
    const auto x = torch::randn({1, 16});
    CachedDecoder alone(model), moved(model);
    ASSERT_TRUE(moved.in_place());
    const auto expected = alone.step(x).clone();
    model.to(torch::kFloat64);
    EXPECT_TRUE(torch::equal(moved.step(x), expected)) << connection;
  }
}

// Long and wide enough that threads share the weights of a product and the heads of attention.
TEST(CachedDecoder, ThreadsGiveWhatTheWholeWindowGives) {
  torch::manual_seed(1);
  Transformer model(
      {.connection = "additive", .layers = 1, .width = 128, .heads = 2, .context = 600});
  model.to(torch::kFloat64);
  const auto threads = torch::get_num_threads();
  torch::set_num_threads(2);
  const auto x = torch::randn({1, 600, 16}, torch::kFloat64);
  torch::NoGradGuard no_grad;
  Trace trace;
  const auto expected = model.forward(x, trace);
  CachedDecoder decoder(model);
  decoder.read(x.slice(1, 0, 590));
  for (int64_t t = 590; t < 600; ++t)
    EXPECT_TRUE(torch::allclose(decoder.step(x.select(1, t)), expected.select(1, t), 1e-9, 1e-11))
        << t;
  torch::set_num_threads(threads);
}

TEST(CachedDecoder, RefusesWhatDoesNotFit) {
  Transformer model(causal_model("additive"));
  CachedDecoder decoder(model);
  EXPECT_THROW(decoder.step(torch::randn({1, 15})), Error);
  EXPECT_THROW(decoder.step(torch::randn({2, 16})), Error);
  EXPECT_THROW(decoder.step(torch::zeros({1}, torch::kInt64)), Error);
}

}  // namespace
}  // namespace geores
