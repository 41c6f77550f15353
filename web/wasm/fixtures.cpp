// The expected results of the WebAssembly modules: the same sources, built for this machine, print their
// inputs and outputs as JSON.
//   fixtures --layout     {"plane": {"skew": [["ux", 1, "in"], ...]}}
//   fixtures --spectrum   [{"chain": {"in", "out"}, "density": ..., "printed": ..., "summary": ...,
//                         "sample": ...}, ...]: computations of one chain each, in this order
//   fixtures --golden F   {"config", "weights" (base64 of a safetensors file), "x", "out", "shape"}
//                         of the golden file F, for the predictor
//   fixtures --models     [{"name", "config", "weights", "x", "out", "shape"}, ...]: a model with random
//                         weights for every form of every connection, and their native results
//   fixtures --page       a page with everything that a Document can hold, as geores writes its reports
//   fixtures NAME [COUNT] [{"in": [...], "out": [...]}, ...] for COUNT (1000) seeded draws of the
//                         computation NAME, extremes included
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "geores/base/base64.h"
#include "geores/base/error.h"
#include "geores/base/formats/safetensors.h"
#include "geores/base/pages/document.h"
#include "geores/base/pages/svg.h"
#include "geores/base/printable.h"
#include "geores/manifold/algebra/random.h"
#include "geores/portable/model.h"
#include "geores/portable/reference/golden_model.h"
#include "web/wasm/exports.h"
#include "web/wasm/random_models.h"

namespace geores::web {
namespace {

using Random = manifold::SplitMix64;

// Uniform, but in one draw of five one of the given extremes.
double draw(Random& random, double low, double high, std::initializer_list<double> extremes = {}) {
  if (extremes.size() > 0 && random.below(5) == 0)
    return extremes.begin()[random.below(static_cast<int>(extremes.size()))];
  return random.uniform(low, high);
}

double whole(Random& random, int low, int high) { return low + random.below(high - low + 1); }

// Of any size between the two, evenly on a log scale.
double sized(Random& random, double low, double high) {
  return low * std::pow(high / low, random.uniform());
}

// How to draw the inputs of each computation, by the position of its fields.
using Draw = std::function<void(Random&, double*)>;

// An entry of a 4 × 4 mixer as training leaves it.
double near_identity(Random& r, int entry) {
  return (entry % 5 == 0 ? 0.97 : 0.01) + 0.01 * r.uniform(-1, 1);
}

void draw_drift(Random& r, double* x) {
  x[0] = whole(r, 1, 96);
  x[1] = draw(r, 0, 0.5, {0, 0.1});
  // A branch against a state shorter than itself turns it round, and rounding decides the result.
  x[2] = x[1] == 0 ? draw(r, -1, 1, {-1, 1}) : draw(r, 0, 1, {0, 1});
  x[3] = draw(r, 0, 1, {0, 0.5, 0.9, 1});
  x[4] = draw(r, 0, 2, {0, 1, 2});
  x[5] = whole(r, 0, 1000);
  x[6] = whole(r, 0, 1);
  x[7] = whole(r, 0, 9);
  x[8] = whole(r, 0, 2);
  for (int i = 9; i < 9 + 1152; ++i) x[i] = near_identity(r, (i - 9) % 16);
}

const std::map<std::string, Draw>& draws() {
  static const std::map<std::string, Draw> all = {
      {"polar",
       [](Random& r, double* x) {
         x[0] = draw(r, -2, 2, {0, 1e-9});
         x[1] = draw(r, -2, 2, {0, -1e-9});
       }},
      {"turn",
       [](Random& r, double* x) {
         x[0] = r.below(4) == 0 ? draw(r, 0, 4, {0, 1e8}) : sized(r, 1e-2, 1e8);
         for (int i = 1; i < 5; ++i) x[i] = draw(r, -2, 2, {0, 2});
         if (r.below(5) == 0)
           for (int i = 0; i < 2; ++i) x[3 + i] = -0.5 * x[1 + i];  // parallel
         x[5] = whole(r, 0, 1);
         x[6] = whole(r, 0, 1);
         x[7] = whole(r, 0, 1000);
         x[8] = draw(r, 0, 3.1, {0});
       }},
      {"missing",
       [](Random& r, double* x) {
         x[0] = r.below(4) == 0 ? draw(r, 0, 4, {0, 2}) : sized(r, 1e-2, 2600);
         x[1] = draw(r, 0, 2.5, {0, 1, 2});
         x[2] = draw(r, 0, 360, {0, 90, 180, 270});
         x[3] = draw(r, 0, 3.1, {0});
       }},
      {"gate",
       [](Random& r, double* x) {
         x[0] = draw(r, 0, 1, {0, 0.5, 1});
         x[1] = draw(r, 0, 20, {0});
         x[2] = draw(r, 0, 360, {0, 90});
         x[3] = draw(r, -1, 1);
         x[4] = draw(r, -1, 1);
         x[5] = std::initializer_list<double>{2, 3, 4, 8}.begin()[r.below(4)];
         x[6] = whole(r, 0, 1000);
       }},
      {"trap",
       [](Random& r, double* x) {
         x[0] = draw(r, 0, 1, {0, 0.1, 0.5});
         x[1] = draw(r, -0.5, 0.5, {0});
         x[2] = draw(r, -3, 3, {0, -1.5});
         x[3] = draw(r, -1e-2, 1e-2, {0, 1e-6, -1e-6});
         x[4] = whole(r, 0, 1);
         x[5] = draw(r, 0, 0.1, {0, 0.01});
         x[6] = whole(r, 100, 300);
         x[7] = sized(r, 1e-4, 1);
         x[8] = draw(r, 0, 0.5, {0, 0, 0});
         x[9] = whole(r, 0, 1000);
       }},
      {"film",
       [](Random& r, double* x) {
         x[0] = draw(r, 0, 1, {0, 0.5, 0.9, 1});
         x[1] = draw(r, 0, 0.2, {0});
         x[2] = whole(r, 0, 1);
         x[3] = whole(r, 0, 1000);
       }},
      {"drift", draw_drift},
      {"drift_median", draw_drift},
      {"bench",
       [](Random& r, double* x) {
         x[0] = whole(r, 0, 10);
         x[1] = whole(r, 2, x[0] == 4 ? 6 : 8);
         x[2] = draw(r, 0, 5, {0, 5});
         x[3] = r.below(5) == 0;
         x[4] = whole(r, 0, 1000);
         x[5] = whole(r, 1, 50);
         x[6] = r.below(3) == 0 ? whole(r, 2, 12) : 1;
         // Products of many unconstrained matrices have eigenvalues that rounding moves.
         if (x[0] == 2) x[6] = 1;
         x[7] = r.below(5) == 0;
         for (int i = 0; i < 384; ++i) x[8 + i] = near_identity(r, i % 16);
       }},
      {"sweeps",
       [](Random& r, double* x) {
         x[0] = draw(r, -8, -1, {-8});
         x[1] = whole(r, 0, 1000);
       }},
      {"iterative",
       [](Random& r, double* x) {
         x[0] = draw(r, 0, 2.2, {0, 2});
         x[1] = whole(r, 1, 3);
         x[2] = whole(r, 0, 1);
         x[3] = draw(r, 0, 1, {0, 1});
       }},
      {"path",
       [](Random& r, double* x) {
         x[0] = whole(r, 0, 7);
         x[1] = whole(r, 8, 15);
         x[2] = draw(r, -0.7, 0.7, {0, 1});
         x[3] = draw(r, -0.7, 0.7, {0});
         x[4] = draw(r, 0.1, 3.1);
         x[5] = whole(r, 1, 32);
         x[6] = 16;
       }},
  };
  return all;
}

nlohmann::json layout() {
  nlohmann::ordered_json modules;
  for (const auto* c = Computation::first; c != nullptr; c = c->next)
    for (int i = 0; i < c->field_count; ++i)
      modules[c->module][c->name].push_back(
          {c->fields[i].name, c->fields[i].count, c->fields[i].input ? "in" : "out"});
  return modules;
}

// JSON has no NaN; the page reads null as NaN.
nlohmann::json number(double x) {
  return std::isnan(x) ? nlohmann::json(nullptr) : nlohmann::json(x);
}

std::string sample_page() {
  svg::Figure figure{.columns = 2, .panel_width = 510, .panel_height = 290};
  for (const char* title : {"Validation loss", "Gradient norm before clipping"}) {
    svg::Panel panel{.title = title, .note = "a note"};
    panel.x.label = "step";
    for (const char* run : {"gpt", "edelta", "no_operator"}) {
      svg::Series series{.name = run};
      for (int step = 0; step < 60; ++step) {
        series.x.push_back(10 * step);
        series.y.push_back(1.0 / (1 + step + static_cast<double>(panel.series.size())));
      }
      panel.series.push_back(series);
    }
    figure.panels.push_back(panel);
  }
  Table table{"An explanation.",
              {"run", "model", "parameters", "steps", "seconds", "best evaluation", "whole set"},
              {{"gpt", "additive", "160384", "600", "19", "1.536e-03", "1.586e-03"},
               {"edelta", "edelta", "161656", "600", "26", "2.966e-04", "3.474e-04"}},
              {{1, 5}}};
  Document page("3 runs on gyroscope");
  page.link("Explorer with these runs", "explorer.html")
      .conclusion("edelta has the lowest error of these runs.")
      .text("One line.\nAnother.")
      .warning("A warning.")
      .table(table)
      .heading("Curves")
      .subheading("By step")
      .figure("panels", figure, "Every run against the training step.")
      .figure("wide", svg::render(figure), "A wide drawing.")
      .made_by("geores compare gpt edelta no_operator --page index.html");
  return page.to_html();
}

const Computation& computation_named(const std::string& name) {
  for (const auto* c = Computation::first; c != nullptr; c = c->next)
    if (name == c->name) return *c;
  fail("fixtures", "unknown computation {}", quote(name));
}

// Runs it on the stored inputs.
nlohmann::json run(const Computation& computation) {
  int inputs = 0, all = 0;
  for (int i = 0; i < computation.field_count; ++i) {
    all += computation.fields[i].count;
    if (computation.fields[i].input) inputs = all;
  }
  auto in = nlohmann::json::array(), out = nlohmann::json::array();
  for (int i = 0; i < inputs; ++i) in.push_back(number(computation.data[i]));
  computation.compute();
  for (int i = inputs; i < all; ++i) out.push_back(number(computation.data[i]));
  return {{"in", in}, {"out", out}};
}

nlohmann::json run(const std::string& name, std::initializer_list<double> inputs) {
  const auto& computation = computation_named(name);
  std::copy(inputs.begin(), inputs.end(), computation.data);
  return run(computation);
}

void print(const Computation& computation, int count) {
  const auto found = draws().find(computation.name);
  require(found != draws().end(), "fixtures", "there are no inputs for {}", computation.name);
  Random random(1);
  std::cout << "[";
  for (int n = 0; n < count; ++n) {
    found->second(random, computation.data);
    std::cout << (n > 0 ? ",\n" : "\n") << run(computation);
  }
  std::cout << "\n]\n";
}

void print_spectra() {
  std::cout << "[";
  for (int mixer = 0; mixer <= 8; ++mixer) {
    const double depth = mixer % 3 == 0 ? 1 : mixer % 3 == 1 ? 3 : 10;
    auto* given = computation_named("spectrum_chain").data;
    std::fill_n(given, 13007, 0.0);
    Random random(mixer);
    for (int i = 0; i < 64 * 3; ++i) given[7 + 200 + i] = i % 64 < 9 ? random.normal() / 2 : 0;
    const bool is_given = mixer == 8;
    nlohmann::json set;
    set["chain"] = run("spectrum_chain", {double(mixer), is_given ? 3.0 : 4.0, depth, 0.05, 0.02,
                                          double(mixer + 1), is_given ? 3.0 : 0.0});
    set["density"] = run("spectrum_density", {6, 0, 0.1, 0.5, 0.8, 1, 1.2, 1.5});
    if (mixer < 2) set["printed"] = run("spectrum_density", {2, 1, 0.8, 1.2});
    for (int part = 0; part < 4; ++part)
      set["summary"].push_back(run("spectrum_summary", {double(part)}));
    set["sample"] = run("spectrum_sample", {3, 2, 5, 7});
    std::cout << (mixer > 0 ? ",\n" : "\n") << set;
  }
  std::cout << "\n]\n";
}

nlohmann::json doubles(const TensorView& view) {
  auto values = nlohmann::json::array();
  for (std::size_t at = 0; at < view.bytes.size(); at += sizeof(double)) {
    double value = 0;
    std::memcpy(&value, view.bytes.data() + at, sizeof value);
    values.push_back(value);
  }
  return values;
}

void print_golden(const std::string& path) {
  const auto file = Safetensors::load(path);
  const auto model = golden_model(file);
  std::cout << nlohmann::json{{"config", model.config.dump()},
                              {"weights", base64(model.weights)},
                              {"shape", file.at("x").shape},
                              {"x", doubles(file.at("x"))},
                              {"out", doubles(file.at("out"))}}
            << "\n";
}

void print_models() {
  constexpr int length = random_models::kContext, width = random_models::kInput;
  auto all = nlohmann::json::array();
  for (const auto& one : random_models::cases()) {
    const auto made = random_models::make(one, static_cast<int>(all.size()) + 1);
    Random random(7);
    std::vector<double> x(length * width), y(length * width);
    for (double& value : x) value = random.normal();
    const auto config = made.config.dump();
    portable::Model(portable::Weights(made.weights, made.name.c_str()),
                    portable::JsonDocument(config, "config").root())
        .forward(x.data(), 0, length, y.data());
    all.push_back({{"name", made.name},
                   {"config", config},
                   {"weights", base64(made.weights)},
                   {"shape", {1, length, width}},
                   {"x", x},
                   {"out", y}});
  }
  std::cout << all << "\n";
}

}  // namespace
}  // namespace geores::web

int main(int argc, char** argv) try {
  using namespace geores;
  require(argc == 2 || argc == 3, "fixtures", "one name and maybe a count, got {} words", argc - 1);
  const std::string what = argv[1];
  if (what == "--layout") {
    std::cout << web::layout() << "\n";
    return 0;
  }
  if (what == "--golden") {
    require(argc == 3, "fixtures", "--golden needs a file");
    web::print_golden(argv[2]);
    return 0;
  }
  if (what == "--page") {
    std::cout << web::sample_page();
    return 0;
  }
  if (what == "--models") {
    web::print_models();
    return 0;
  }
  if (what == "--spectrum") {
    web::print_spectra();
    return 0;
  }
  web::print(web::computation_named(what), argc == 3 ? std::atoi(argv[2]) : 1000);
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
