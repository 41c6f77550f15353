#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "cli/lab/bench_sizes.h"
#include "cli/lab/lab.h"
#include "cli/terminal/progress_bar.h"
#include "geores/base/error.h"
#include "geores/kernels/cpu/bfloat16_tile.h"
#include "geores/kernels/cpu/instructions.h"
#include "geores/ops/run/device_named.h"
#include "geores/ops/run/execution.h"
#include "geores/train/device/recorded_work.h"
#include "lab/benchmark/step_benchmark.h"

namespace geores::cli {
namespace {

struct Row {
  std::string label;
  int64_t layers, width, parameters;
  double fused, stock;  // seconds a step, medians
  double bf16;          // fused with products in bfloat16; 0: not asked for
  ProductTimes products;
  StepMemory fused_memory, stock_memory;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

Row measure(const BenchSize& size, const BenchFlags& flags, const std::function<void()>& done) {
  const auto config = config_of(size, flags);
  StepBenchmark benchmark(model_of(size, flags), flags.batch, flags.length);
  Row row{.label = size.label,
          .layers = config.layers,
          .width = config.width,
          .parameters = benchmark.parameters(),
          .fused = 0,
          .stock = 0,
          .bf16 = 0,
          .products = {},
          .fused_memory = benchmark.memory(Form::fused),
          .stock_memory = benchmark.memory(Form::stock)};
  done();
  row.products = benchmark.products(2);
  done();
  const bool in_bf16 = flags.precision == "bf16";
  if (in_bf16) benchmark.seconds(Form::fused, "bf16");  // the others are warm
  std::vector<double> fused, stock, bf16;
  for (int64_t i = 0; i < flags.repeats; ++i) {  // interleaved: all see the same machine
    fused.push_back(benchmark.seconds(Form::fused));
    stock.push_back(benchmark.seconds(Form::stock));
    if (in_bf16) bf16.push_back(benchmark.seconds(Form::fused, "bf16"));
    done();
  }
  row.fused = median(fused);
  row.stock = median(stock);
  if (in_bf16) row.bf16 = median(bf16);
  return row;
}

// How the connection alone, without attention and MLP, grows with length, streams and threads.
struct Scaling {
  std::string connection;
  std::vector<std::pair<double, double>> length, streams, threads;  // size, seconds
};

Scaling measure_scaling(const BenchSize& size) {
  const auto& connection = size.connection;
  Scaling scaling{.connection = connection, .length = {}, .streams = {}, .threads = {}};
  const auto seconds = [&](int64_t length, int64_t streams) {
    return connection_seconds(connection, {.width = size.width, .streams = streams}, 16, length,
                              Form::fused, 5);
  };
  for (const int64_t length : {128, 256, 512, 1024})
    scaling.length.emplace_back(length, seconds(length, 4));
  for (const int64_t streams : {2, 4, 8, 16}) {
    if (connection == "mhc_lite" && streams > 6) continue;
    scaling.streams.emplace_back(streams, seconds(256, streams));
  }
  const auto most = torch::get_num_threads();
  for (int threads = 1; threads <= most; threads *= 2) {
    torch::set_num_threads(threads);
    scaling.threads.emplace_back(threads, seconds(512, 4));
  }
  torch::set_num_threads(most);
  return scaling;
}

nlohmann::json to_json(const Row& row) {
  const auto memory = [](const StepMemory& m) {
    return nlohmann::json{{"allocated_bytes", m.allocated}, {"peak_bytes", m.peak}};
  };
  nlohmann::json object = {{"model", row.label},
                           {"layers", row.layers},
                           {"width", row.width},
                           {"parameters", row.parameters},
                           {"fused_seconds", row.fused},
                           {"stock_seconds", row.stock},
                           {"projection_seconds", row.products.projections},
                           {"attention_product_seconds", row.products.attention},
                           {"fused_memory", memory(row.fused_memory)},
                           {"stock_memory", memory(row.stock_memory)}};
  if (row.bf16 > 0) object["bf16_seconds"] = row.bf16;
  return object;
}

nlohmann::json to_json(const Scaling& scaling) {
  return {{"connection", scaling.connection},
          {"length", scaling.length},
          {"length_exponent", growth_exponent(scaling.length)},
          {"streams", scaling.streams},
          {"streams_exponent", growth_exponent(scaling.streams)},
          {"threads", scaling.threads}};
}

double megabytes(int64_t bytes) { return static_cast<double>(bytes) / 1e6; }

// How this processor multiplies values in bfloat16.
std::string bf16_products() {
  const auto* instruction = kernels::bfloat16_tile().instruction;
  return instruction ? fmt::format("by {}", instruction)
                     : "by float32 instructions: it has none for bfloat16";
}

void print_header(bool bf16) {
  constexpr auto line = "{:<16} {:>6} {:>8} {:>8} {:>7} {}{:>8} {:>8} {:>7} {:>14} {:>16}\n";
  const auto of_bf16 = [&](const char* seconds, const char* faster) {
    return bf16 ? fmt::format("{:>8} {:>7} ", seconds, faster) : std::string();
  };
  fmt::print(line, "", "size", "fused", "stock", "faster", of_bf16("bf16", "faster"), "linear",
             "attn", "fused", "peak MB", "allocated MB");
  fmt::print(line, "connection", "L/D", "s/step", "s/step", "", of_bf16("s/step", ""), "GEMMs s",
             "GEMMs s", "/GEMMs", "fused  stock", "fused  stock");
}

void print_row(const Row& row) {
  fmt::print(
      "{} {:>6} {:>8.3f} {:>8.3f} {:>6.2f}x {}{:>8.3f} {:>8.3f} {:>7.2f} {:>6.0f} {:>7.0f} "
      "{:>7.0f} {:>8.0f}\n",
      first_column(row.label), fmt::format("{}/{}", row.layers, row.width), row.fused, row.stock,
      row.stock / row.fused,
      row.bf16 > 0 ? fmt::format("{:>8.3f} {:>6.2f}x ", row.bf16, row.stock / row.bf16) : "",
      row.products.projections, row.products.attention,
      row.fused / (row.products.projections + row.products.attention),
      megabytes(row.fused_memory.peak), megabytes(row.stock_memory.peak),
      megabytes(row.fused_memory.allocated), megabytes(row.stock_memory.allocated));
  std::fflush(stdout);
}

void print_scaling(const std::vector<Scaling>& all) {
  const auto list = [](const std::vector<std::pair<double, double>>& points) {
    std::string text;
    for (const auto& [size, seconds] : points)
      text += fmt::format("{}{:.0f}: {:.1f}", text.empty() ? "" : "  ", size, 1e3 * seconds);
    return text;
  };
  fmt::print("\nThe connection alone, both ways, batch 16, ms:\n");
  for (const auto& s : all)
    fmt::print(
        "{:<16} length {} (exponent {:.2f})\n{:<16} streams {} (exponent {:.2f})\n{:<16} "
        "threads {}\n",
        s.connection, list(s.length), growth_exponent(s.length), "", list(s.streams),
        growth_exponent(s.streams), "", list(s.threads));
}

// 1, 2, 4, … runs at a time, up to the number that is asked for.
std::vector<SideBySide> measure_side_by_side(const MakeModel& make, const BenchFlags& flags) {
  std::vector<int> counts;
  for (int runs = 1; runs < flags.side_by_side; runs *= 2) counts.push_back(runs);
  if (flags.side_by_side > 0) counts.push_back(flags.side_by_side);
  std::vector<SideBySide> all;
  for (const auto runs : counts)
    all.push_back(device_steps_side_by_side(make, flags.batch, flags.length, flags.precision, runs,
                                            flags.replays));
  return all;
}

void print_side_by_side(const std::vector<SideBySide>& all) {
  for (const auto& one : all)
    fmt::print(
        "{:>19} run{} side by side: {:.0f} steps/s, {:.0f} µs to start one, waits included\n",
        one.runs, one.runs == 1 ? "" : "s", one.steps_per_second, 1e6 * one.start_seconds);
}

// On a GPU: replays of the recorded step, of the fused form and of LibTorch's operations.
void bench_on_gpu(const BenchFlags& flags) {
  expect_cuda_streams(2 * flags.side_by_side);
  nlohmann::json rows = nlohmann::json::array();
  constexpr auto line = "{:<16} {:>6} {:>9} {:>9} {:>9} {:>7} {:>8} {:>8}\n";
  if (!flags.json) {
    fmt::print("One training step, batch {}, length {}, {} on a GPU, median of {} replays\n",
               flags.batch, flags.length, flags.precision, flags.replays);
    fmt::print(line, "", "size", "fused", "fastest", "composed", "", "peak", "");
    fmt::print(line, "connection", "L/D", "ms", "ms", "ms", "kernels", "MB", "M tok/s");
  }
  for (const auto& size : wanted_sizes(flags)) {
    const auto config = config_of(size, flags);
    const MakeModel make = [&] { return model_of(size, flags); };
    const auto times = [&](Form form, int64_t replays) {
      return device_step_times(make, flags.batch, flags.length, flags.precision, form, replays);
    };
    const auto fused = times(Form::fused, flags.replays);
    const auto composed = flags.replays >= 20 ? times(Form::composed, 20).median : 0.0;
    const auto tokens = static_cast<double>(flags.batch * flags.length) / fused.median / 1e6;
    rows.push_back({{"model", size.label},
                    {"layers", config.layers},
                    {"width", config.width},
                    {"parameters", fused.parameters},
                    {"fused_seconds", fused.median},
                    {"fastest_seconds", fused.fastest},
                    {"composed_seconds", composed},
                    {"kernels", fused.kernels},
                    {"peak_bytes", fused.peak_bytes},
                    {"side_by_side", nlohmann::json::array()}});
    const auto together = measure_side_by_side(make, flags);
    for (const auto& one : together)
      rows.back()["side_by_side"].push_back({{"runs", one.runs},
                                             {"steps_per_second", one.steps_per_second},
                                             {"start_seconds", one.start_seconds}});
    if (flags.json) continue;
    fmt::print(line, first_column(size.label), fmt::format("{}/{}", config.layers, config.width),
               fmt::format("{:.3f}", 1e3 * fused.median),
               fmt::format("{:.3f}", 1e3 * fused.fastest), fmt::format("{:.3f}", 1e3 * composed),
               fused.kernels, fmt::format("{:.0f}", megabytes(fused.peak_bytes)),
               fmt::format("{:.3g}", tokens));
    print_side_by_side(together);
    std::fflush(stdout);
  }
  if (flags.json)
    fmt::print("{}\n", nlohmann::json{{"batch", flags.batch},
                                      {"length", flags.length},
                                      {"precision", flags.precision},
                                      {"steps", rows}}
                           .dump(2));
}

// One line for each kernel that an operation requested: how often it runs, or the missing requirement.
void explain(const BenchFlags& flags) {
  for (const auto& size : wanted_sizes(flags)) {
    const auto explanation = explain_step([&] { return model_of(size, flags); }, flags.batch,
                                          flags.length, flags.precision, flags.device);
    if (flags.json) {
      auto lines = nlohmann::json::array();
      for (const auto& line : explanation.lines())
        lines.push_back({{"operation", line.operation},
                         {"kernel", line.kernel},
                         {"runs", line.missing.empty()},
                         {"needs", line.missing},
                         {"times", line.times}});
      fmt::print("{}\n", nlohmann::json{{"model", size.label}, {"choices", lines}}.dump());
      continue;
    }
    fmt::print("{}: one training step, batch {}, length {}, {} on {}\n", size.label, flags.batch,
               flags.length, flags.precision, flags.device == "cuda" ? "a GPU" : "a CPU");
    fmt::print("{:24} {:32} {:>5}\n", "operation", "kernel", "times");
    for (const auto& line : explanation.lines())
      fmt::print("{:24} {:32} {:>5}  {}\n", line.operation, line.kernel, line.times,
                 line.missing.empty() ? "runs" : "does not run: needs " + line.missing);
    fmt::print("\n");
  }
}

// Each connection once, around a sublayer that costs nothing.
void bench_connections(const BenchFlags& flags) {
  const auto sizes = wanted_sizes(flags);
  auto rows = nlohmann::json::array();
  if (!flags.json) {
    fmt::print(
        "One connection around an identity sublayer, forward and backward: {} tokens, {} streams, "
        "{} on {}\n",
        flags.batch * flags.length, flags.streams, flags.precision,
        flags.device == "cuda" ? "a GPU" : "a CPU");
    fmt::print("{:<16} {:>6} {:>9} {:>12} {:>8}\n", "connection", "width", "fused ms",
               "composed ms", "kernels");
  }
  for (const auto& size : sizes) {
    const ResidualConfig config{.width = flags.width > 0 ? flags.width : size.width,
                                .streams = flags.streams,
                                .options = size.options};
    const auto times = [&](Form form) {
      return connection_times(size.connection, config,
                              {.batch = flags.batch,
                               .length = flags.length,
                               .device = flags.device,
                               .precision = flags.precision,
                               .form = form,
                               .repeats = flags.device == "cuda" ? flags.replays : flags.repeats});
    };
    const auto fused = times(Form::fused), composed = times(Form::composed);
    if (flags.json)
      rows.push_back({{"connection", size.connection},
                      {"model", size.label},
                      {"width", config.width},
                      {"fused_seconds", fused.median},
                      {"composed_seconds", composed.median},
                      {"kernels", fused.kernels}});
    else
      fmt::print("{} {:>6} {:>9.3f} {:>12.3f} {:>8}\n", first_column(size.label), config.width,
                 1e3 * fused.median, 1e3 * composed.median, fused.kernels);
    std::fflush(stdout);
  }
  if (flags.json)
    fmt::print("{}\n", nlohmann::json{{"tokens", flags.batch * flags.length},
                                      {"streams", flags.streams},
                                      {"precision", flags.precision},
                                      {"connections", rows}}
                           .dump(2));
}

void bench(BenchFlags flags) {
  flags.complete();
  device_named(flags.device, "bench");  // refuses one that is not there
  if (flags.explain) return explain(flags);
  if (flags.alone) return bench_connections(flags);
  if (flags.generate) return bench_generation(flags);
  if (flags.device == "cuda") return bench_on_gpu(flags);
  require(flags.side_by_side == 0, "bench", "--side-by-side needs --device cuda");
  require(flags.precision != "tf32", "bench",
          "precision tf32 needs device cuda; a CPU has fp32 and bf16");
  if (flags.precision == "bf16_state") flags.precision = "bf16";  // a CPU's state stays float32
  const bool bf16 = flags.precision == "bf16";
  const auto sizes = wanted_sizes(flags);
  const auto start = std::chrono::steady_clock::now();
  const auto per_model = flags.repeats + 2 + (flags.scaling ? 1 : 0);
  const auto total = static_cast<int64_t>(sizes.size()) * per_model;
  if (!flags.json) {
    fmt::print("One training step, batch {}, length {}, {} threads, float32, {}\n", flags.batch,
               flags.length, torch::get_num_threads(), kernels::vector_instructions());
    if (bf16) fmt::print("bf16: the same with products in bfloat16, {}\n", bf16_products());
    print_header(bf16);
  }
  ProgressBar bar("bench");
  int64_t finished = 0;
  std::vector<Row> rows;
  std::vector<Scaling> scaling;
  for (const auto& size : sizes) {
    const auto done = [&] {
      const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
      bar.show(++finished, total, elapsed.count(), size.label);
    };
    rows.push_back(measure(size, flags, done));
    if (!flags.json) print_row(rows.back());
    if (!flags.scaling) continue;
    if (size.label == size.connection) scaling.push_back(measure_scaling(size));
    done();
  }

  if (flags.json) {
    nlohmann::json object = {{"batch", flags.batch},
                             {"length", flags.length},
                             {"threads", torch::get_num_threads()},
                             {"precision", flags.precision},
                             {"steps", nlohmann::json::array()},
                             {"scaling", nlohmann::json::array()}};
    if (bf16) object["bf16_products"] = bf16_products();
    for (const auto& row : rows) object["steps"].push_back(to_json(row));
    for (const auto& one : scaling) object["scaling"].push_back(to_json(one));
    fmt::print("{}\n", object.dump(2));
    return;
  }
  if (flags.scaling) print_scaling(scaling);
}

}  // namespace

void add_bench(CLI::App& app, int& exit_code) {
  // CLI::PositiveNumber would print its range with three hundred digits.
  const auto positive = CLI::Range(int64_t{1}, int64_t{1} << 30);
  auto flags = std::make_shared<BenchFlags>();
  auto* command = app.add_subcommand(
      kBench.name,
      std::string(kBench.about) +
          "\nEvery connection at the size of the papers' comparison: fused kernels against stock\n"
          "LibTorch operations (Cayley by a linear solve, Sinkhorn unrolled), interleaved in one\n"
          "process so that both see the same machine.\n"
          "  GEMMs    the matrix products of the stock step alone: same shapes, same BLAS\n"
          "  bf16     fused, with the factors of products rounded to bfloat16 (--precision bf16)\n"
          "  peak     most memory in use at once, above what the model and its optimiser hold\n"
          "Examples:\n"
          "  geores bench                              everything, some minutes\n"
          "  geores bench --models edelta additive     two connections\n"
          "  geores bench --text --models hc hc:dynamic=false     one connection twice, with "
          "other options\n"
          "  geores bench --batch 8 --length 64        a quick look\n"
          "  geores bench --models edelta --precision bf16\n"
          "  geores bench --device cuda --models edelta --side-by-side 16\n"
          "  geores bench --text --device cuda         a language model: 12 layers of width 768, "
          "12 "
          "heads,\n"
          "                                            16 windows of 1,024 of 50,304 ids\n"
          "  geores bench --connection-alone --device cuda --models mhc --batch 16 --length 1024 "
          "--width "
          "768\n"
          "  geores bench --generate --models additive edelta shc     text: 12 layers of width "
          "384, "
          "context 512\n"
          "  geores bench --puzzles --device cuda --models none cayley     a recursive model: "
          "width "
          "512, "
          "900 cells,\n"
          "                                            3 cycles of 4 + 1 calls, 4 streams of a "
          "mixer\n"
          "  geores bench --models jpmhc --explain     which kernels run, and why others do not\n"
          "  geores bench --models edelta --scaling    how cost grows with length, streams, "
          "threads");
  command->add_option("--models", flags->models,
                      "connections, see `geores list` [all], with options after a colon: "
                      "hc:dynamic=false; --puzzles: mixers, or none");
  command->add_option("--batch", flags->batch, "sequences a step [64; --text: 16]")
      ->check(positive);
  command->add_option("--length", flags->length, "positions a sequence [255; --text: 1024]")
      ->check(positive);
  command
      ->add_option("--layers", flags->layers,
                   "blocks [as in the papers, by connection; --text: 12]")
      ->check(positive);
  command
      ->add_option("--width", flags->width,
                   "values a token [as in the papers, by connection; --text: 768]")
      ->check(positive);
  command->add_option("--heads", flags->heads, "of attention [4; --text: 12]")->check(positive);
  command->add_option("--streams", flags->streams, "residual streams [4]")->check(positive);
  command->add_flag("--text", flags->text, "language models: ids in, a tied head, causal variants");
  command->add_flag("--puzzles", flags->puzzles, "recursive models, mixers in layout expand");
  command->add_option("--vocabulary", flags->vocabulary, "of --text [50304], of --puzzles [12]")
      ->check(positive);
  command->add_flag("--connection-alone", flags->alone,
                    "time each connection once, around a sublayer that costs nothing");
  command->add_flag("--generate", flags->generate,
                    "time the generation of text instead, with the cache and without");
  command
      ->add_option("--repeats", flags->repeats, "timed steps of each form; the median counts [3]")
      ->check(positive);
  command->add_option("--device", flags->device, "cpu, or cuda: replays of the recorded step [cpu]")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  command
      ->add_option(
          "--precision", flags->precision,
          "fp32 or bf16, on a GPU also tf32 and bf16_state; this processor multiplies bf16 " +
              bf16_products() + " [CPU: fp32, GPU: bf16]")
      ->check(CLI::IsMember(precision_names()));
  command
      ->add_option("--checkpoint", flags->checkpoint,
                   "the part that the backward pass recomputes: none, blocks or connections [none]")
      ->check(CLI::IsMember(recompute_names()));
  command->add_option("--replays", flags->replays, "on a GPU: timed steps [200]")->check(positive);
  command
      ->add_option("--side-by-side", flags->side_by_side,
                   "on a GPU: also 1, 2, 4, … runs at a time, up to this number: the gain of "
                   "`reproduce --jobs`"
                   "")
      ->check(CLI::Range(1, 256));
  command->add_flag("--scaling", flags->scaling,
                    "also time each connection alone over length, streams and threads");
  command->add_flag("--explain", flags->explain,
                    "print the kernel of every operation of a step, and the reasons why "
                    "others do not run; no timing");
  command->add_flag("--json", flags->json, "machine-readable result");
  command->callback([flags, &exit_code] {
    bench(*flags);
    exit_code = 0;
  });
}

}  // namespace geores::cli
