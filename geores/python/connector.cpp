#include "geores/python/connector.h"

#include <ATen/CPUGeneratorImpl.h>

#include <map>
#include <utility>

#include "geores/base/error.h"
#include "geores/base/json.h"
#include "geores/modules/seeding.h"

namespace geores::python {
namespace {

using nlohmann::json;

// While it lives, LibTorch's generator of the CPU draws from `seed`; afterwards it continues as before.
class Drawing {
 public:
  explicit Drawing(uint64_t seed)
      : lock_(generator_mutex()), generator_(at::detail::getDefaultCPUGenerator()) {
    const std::lock_guard<std::mutex> own(generator_.mutex());
    before_ = generator_.get_state();
    generator_.set_current_seed(seed);
  }
  ~Drawing() {
    const std::lock_guard<std::mutex> own(generator_.mutex());
    generator_.set_state(before_);
  }
  Drawing(const Drawing&) = delete;
  Drawing& operator=(const Drawing&) = delete;

 private:
  std::lock_guard<std::mutex> lock_;
  at::Generator generator_;
  Tensor before_;
};

json options_of(const json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() ? json() : *found;
}

}  // namespace

Connector::Connector(const std::string& text) {
  const auto object = parse_json(text, "connection");
  struct {
    std::string name = "additive";
    ResidualConfig config;
  } wanted;
  auto plain = object;
  config_.options = options_of(object, "options");
  plain.erase("options");
  Fields()
      .add("name", wanted.name, "of the connection")
      .add("width", wanted.config.width, "values of a stream", {.min = 1})
      .add("streams", wanted.config.streams, "residual streams", {.min = 1})
      .add("index", wanted.config.index, "position in the stack", {.min = 0})
      .read(plain, "connection");
  name_ = wanted.name;
  config_.width = wanted.config.width;
  config_.streams = wanted.config.streams;
  config_.index = wanted.config.index;

  auto instance = make(0);
  auto& residual = *instance.residual;
  traits_ = residual.traits();
  for (const auto& item : residual.named_parameters()) parameter_names_.push_back(item.key());
  for (const auto& item : residual.named_buffers()) buffer_names_.push_back(item.key());
  const auto names_among = [&](const Tensors& some) {
    std::vector<std::string> names;
    for (const auto& item : residual.named_parameters())
      for (const auto& one : some)
        if (item.value().is_same(one)) names.push_back(item.key());
    return names;
  };
  manifold_names_ = names_among(residual.manifold_parameters());
  undecayed_names_ = names_among(residual.decay_exceptions());

  const torch::NoGradGuard no_gradients;
  Trace trace;
  const auto x = traits_.layout == StreamLayout::expand
                     ? torch::zeros({1, 1, traits_.streams, config_.width})
                     : torch::zeros({1, 1, traits_.state_width});
  try {
    residual.forward(
        x, [](const Tensor&) -> Tensor { throw AtSublayer(); }, trace);
  } catch (const AtSublayer&) {
  }
  has_loss_ = trace.loss().defined();
  idle_.push_back(std::move(instance));
}

Connector& Connector::of(const std::string& text) {
  static std::mutex mutex;
  static std::map<std::string, std::unique_ptr<Connector>> all;
  const std::lock_guard<std::mutex> lock(mutex);
  auto& connector = all[text];
  try {
    if (!connector) connector = std::make_unique<Connector>(text);
  } catch (...) {
    all.erase(text);
    throw;
  }
  return *connector;
}

Instance Connector::make(uint64_t seed) const {
  const Drawing drawing(seed);
  Instance instance{.residual = make_residual(name_, config_), .parameters = {}, .buffers = {}};
  instance.parameters = instance.residual->parameters();
  instance.buffers = instance.residual->buffers();
  return instance;
}

Instance Connector::take() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!idle_.empty()) {
      auto instance = std::move(idle_.back());
      idle_.pop_back();
      return instance;
    }
  }
  return make(0);
}

void Connector::give_back(Instance instance) {
  const std::lock_guard<std::mutex> lock(mutex_);
  idle_.push_back(std::move(instance));
}

json Connector::description() const {
  return {{"name", name_},
          {"layout", to_string(traits_.layout)},
          {"streams", traits_.streams},
          {"state_width", traits_.state_width},
          {"sublayer_width", traits_.sublayer_width},
          {"causal", traits_.causal},
          {"orthogonal", traits_.orthogonal},
          {"initial_map", to_string(traits_.initial_map)},
          {"auxiliary_loss", has_loss_},
          {"parameters", parameter_names_},
          {"buffers", buffer_names_},
          {"manifold_parameters", manifold_names_},
          {"decay_exceptions", undecayed_names_}};
}

}  // namespace geores::python
