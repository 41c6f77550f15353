#include "lab/reference/verify_recursive.h"

#include <map>

#include "geores/base/config.h"
#include "geores/base/json.h"
#include "geores/model/recursive/recursive.h"
#include "geores/train/optimizer/schedule.h"
#include "geores/train/training_step.h"

namespace geores {
namespace {

// The keys of the public code's configuration.
struct RecursiveDumpConfig {
  RecursiveOptions model;
  int64_t batch = 0, cells = 0, vocabulary = 0, forward_steps = 0, grad_step = 0;
  double init_gate_bias = 0;
  std::string mixer_type = "none", positions = "rope";
  double lr = 0, table_lr = 0, weight_decay = 0, table_decay = 0, beta1 = 0, beta2 = 0;
  double min_ratio = 0, clip = 0, ema = 0;
  int64_t warmup = 0, total_steps = 0;

  Fields fields() {
    return Fields()
        .add("B", batch, "rows", {.min = 1, .max = 1e4})
        .add("seq_len", cells, "cells", {.min = 1, .max = 1e6})
        .add("vocab_size", vocabulary, "tokens", {.min = 1, .max = 1e6})
        .add("num_puzzle_identifiers", model.identifiers, "table rows", {.min = 1})
        .add("puzzle_emb_ndim", model.table_width, "values of a table row", {.min = 1})
        .add("puzzle_emb_len", model.prefix, "prefix positions", {.min = 0})
        .add("H_cycles", model.h_cycles, "cycles", {.min = 1})
        .add("L_cycles", model.l_cycles, "scratch updates", {.min = 1})
        .add("L_layers", model.layers, "layers", {.min = 1, .max = 1e3})
        .add("hidden_size", model.width, "width", {.min = 1, .max = 1e6})
        .add("expansion", model.expansion, "of the MLP", {.min = 1e-3})
        .add("mlp_multiple", model.mlp_multiple, "of the MLP", {.min = 1})
        .add("num_heads", model.heads, "heads", {.min = 1})
        .choice("pos_encodings", positions, {"rope", "learned", "none"}, "positions")
        .add("rms_norm_eps", model.norm_eps, "of the block's norms", {.min = 0})
        .add("rope_theta", model.rope_theta, "rotary base", {.min = 1})
        .add("halt_max_steps", model.act_steps, "most steps", {.min = 1, .max = 1e4})
        .add("mlp_t", model.mlp_t, "MLP over positions")
        .choice("mixer_type", mixer_type, {"none", "jpmhc", "edelta"}, "mixer")
        .add("n_streams", model.streams, "streams", {.min = 1, .max = 1e4})
        .add("cayley_alpha", model.cayley_alpha, "of jpmhc")
        .add("cayley_iters", model.cayley_iterations, "of jpmhc", {.min = 0})
        .add("geo_hidden_dim", model.hidden, "of edelta", {.min = 1})
        .add("gate_reg_weight", model.gate_weight, "of edelta", {.min = 0})
        .add("init_gate_bias", init_gate_bias, "of edelta; the weights are given")
        .add("forward_steps", forward_steps, "steps with fixed weights", {.min = 1, .max = 1e4})
        .add("grad_step", grad_step, "step whose gradients are given", {.min = 0})
        .add("lr", lr, "learning rate", {.min = 0})
        .add("puzzle_emb_lr", table_lr, "learning rate of the table", {.min = 0})
        .add("weight_decay", weight_decay, "of the parameters", {.min = 0})
        .add("puzzle_emb_weight_decay", table_decay, "of the table", {.min = 0})
        .add("beta1", beta1, "of AdamAtan2")
        .add("beta2", beta2, "of AdamAtan2")
        .add("lr_warmup_steps", warmup, "warm-up", {.min = 0})
        .add("total_steps", total_steps, "planned steps", {.min = 1})
        .add("lr_min_ratio", min_ratio, "last learning rate over the first", {.min = 0})
        .add("grad_clip", clip, "largest gradient norm; 0: none", {.min = 0})
        .add("ema_rate", ema, "of the average", {.min = 0, .max = 1});
  }
};

RecursiveDumpConfig read_config(const Dump& dump) {
  RecursiveDumpConfig config;
  const auto json = parse_json(dump.metadata("config"), dump.name());
  const auto fields = config.fields();
  fields.read(json, dump.name());
  for (const auto& field : fields.all())
    require(json.contains(field.key), dump.name(), "config has no '{}'", field.key);
  require(config.grad_step < config.forward_steps, dump.name(), "grad_step {} of {} steps",
          config.grad_step, config.forward_steps);
  auto& model = config.model;
  model.mixer = config.mixer_type == "jpmhc" ? "cayley" : config.mixer_type;
  model.positions = config.positions == "rope" ? "rotary" : config.positions;
  model.explore = 0;
  model.reflection = "whole";
  model.gate_scale = "reference";
  return config;
}

// Parts of our names and of theirs, in the order in which they are replaced.
const std::pair<std::string, std::string> kParts[] = {
    {"tokens", "embed_tokens.embedding_weight"},
    {"lm_head", "lm_head.weight"},
    {"q_head", "q_head.weight"},
    {"q_bias", "q_head.bias"},
    {"layers", "L_level.layers."},
    {".positions_mlp.", ".mlp_t."},
    {".attention.qkv", ".self_attn.qkv_proj.weight"},
    {".attention.out", ".self_attn.o_proj.weight"},
    {".gate_up.", ".gate_up_proj."},
    {".down.", ".down_proj."},
    {".attention_mixer.", ".attn_mixer."},
    {".mlp_mixer.", ".ffn_mixer."},
    {"_mixer.mixer.fused.", "_mixer.fused_proj."},
    {".generator.hidden.", ".geo_proj.0."},
    {".generator.output.", ".geo_proj.2."},
    {".router.", ".route_proj."},
};

std::string public_name(std::string name) {
  if (name == "positions") return "embed_pos.embedding_weight";
  for (const auto& [ours, theirs] : kParts)
    if (const auto at = name.find(ours); at != name.npos) name.replace(at, ours.size(), theirs);
  return name;
}

class RecursiveCheck {
 public:
  explicit RecursiveCheck(Dump& dump)
      : dump_(dump),
        config_(read_config(dump)),
        model_(config_.model,
               {.length = config_.cells, .width = 1, .vocabulary = config_.vocabulary}) {
    model_.to(torch::kFloat64);
    const torch::NoGradGuard no_grad;
    for (const auto& item : model_.named_parameters()) {
      names_[item.key()] = public_name(item.key());
      item.value().copy_(dump.read("param/" + names_[item.key()], item.value().sizes()));
    }
    auto buffers = model_.named_buffers();
    for (const auto& [ours, theirs] :
         {std::pair{"answer_start", "H_init"}, std::pair{"scratch_start", "L_init"},
          std::pair{"table", "puzzle_emb.weights"}})
      buffers[ours].copy_(dump.read(std::string("buffer/") + theirs, buffers[ours].sizes()));
    result_ = {.kind = dump.metadata("kind"),
               .connection = "recursive, mixer " + config_.model.mixer,
               .parameters = parameter_count(model_),
               .groups = {}};
  }

  Verification run() {
    model_.train_table();
    fixed_weights();
    evaluation();
    training();
    dump_.require_all_read();
    return result_;
  }

 private:
  int64_t rows() const { return config_.batch; }

  Batch batch(const std::string& group, int64_t step) {
    const auto steps = group == "batch" ? config_.forward_steps : train_steps();
    const std::vector<int64_t> grid = {steps, rows(), config_.cells};
    const auto at = [&](const char* name, const std::vector<int64_t>& shape) {
      return dump_.read(group + "/" + name, shape, Dtype::i64)[step];
    };
    const auto x =
        torch::cat({at("puzzle_identifiers", {steps, rows()}).unsqueeze(1), at("inputs", grid)}, 1);
    const auto y = at("labels", grid);
    require(x.select(1, 0)
                    .ge(0)
                    .logical_and(x.select(1, 0).lt(config_.model.identifiers))
                    .all()
                    .item<bool>() &&
                x.slice(1, 1)
                    .ge(0)
                    .logical_and(x.slice(1, 1).lt(config_.vocabulary))
                    .all()
                    .item<bool>() &&
                y.lt(config_.vocabulary).all().item<bool>(),
            dump_.name(), "'{}' has tokens or identifiers that are not there", group);
    return {x, y};
  }

  int64_t train_steps() {
    const auto inputs = dump_.read("train/inputs", Dtype::i64);
    require(inputs.dim() == 3 && inputs.size(0) >= 1, dump_.name(),
            "'train/inputs' holds no steps");
    return inputs.size(0);
  }

  // A group of tensors `prefix/NAME`, each a list over steps.
  void compare(const std::string& group, double limit,
               const std::map<std::string, std::vector<Tensor>>& ours) {
    Group judged(group, limit);
    for (const auto& [name, list] : ours) {
      const auto all = torch::stack(list).detach();
      const auto counts = !all.is_floating_point();
      judged.compare(
          name, all.to(torch::kFloat64),
          dump_.read(name, all.sizes(), counts ? Dtype::i64 : Dtype::f64).to(torch::kFloat64));
    }
    result_.groups.push_back(judged.result());
  }

  template <class Value>
  void compare_parameters(const std::string& prefix, double limit, const std::string& extra,
                          const Tensor& extra_value, Value&& value) {
    Group judged(prefix, limit);
    for (const auto& item : model_.named_parameters()) {
      const auto name = prefix + "/" + names_[item.key()];
      judged.compare(name, value(item.value()), dump_.read(name, item.value().sizes()));
    }
    if (!extra.empty())
      judged.compare(prefix + "/" + extra, extra_value,
                     dump_.read(prefix + "/" + extra, extra_value.sizes()));
    result_.groups.push_back(judged.result());
  }

  Tensor gate_of(const Recursive::Step& step) const {
    const auto loss = step.trace.loss();
    return loss.defined() ? loss : torch::zeros({}, torch::kFloat64);
  }

  void fixed_weights() {
    auto carry = model_.initial_carry(rows());
    std::map<std::string, std::vector<Tensor>> answers, losses, halting, states, metrics;
    Tensor table_gradient;
    std::map<std::string, Tensor> gradients;
    for (int64_t i = 0; i < config_.forward_steps; ++i) {
      carry.set("metrics", torch::zeros_like(carry.at("metrics")));
      const auto step = model_.act_step(batch("batch", i), carry);
      const auto gate = gate_of(step);
      const auto loss = step.losses.sum() + gate;
      if (i == config_.grad_step) {
        (loss / static_cast<double>(rows())).backward();
        for (const auto& item : model_.named_parameters())
          gradients[item.key()] = item.value().grad().clone();
        table_gradient = model_.take_table_rows().back().rows.grad();
      }
      answers["out/logits"].push_back(step.answer.logits);
      answers["out/q_halt"].push_back(step.answer.q.select(1, 0));
      answers["out/q_continue"].push_back(step.answer.q.select(1, 1));
      losses["out/lm_loss"].push_back(step.scores.lm_loss.sum());
      losses["out/q_halt_loss"].push_back(step.scores.q_loss.sum());
      losses["out/gate_reg"].push_back(gate);
      losses["out/loss"].push_back(loss);
      halting["out/steps"].push_back(carry.at("steps").clone());
      halting["out/halted"].push_back(carry.at("halted").to(torch::kInt64));
      states["out/z_H"].push_back(carry.at("answer").clone());
      states["out/z_L"].push_back(carry.at("scratch").clone());
      const auto sums = carry.at("metrics").sum(0);
      for (const auto& [name, metric] :
           {std::pair{"count", Recursive::kCount}, std::pair{"accuracy", Recursive::kRightCells},
            std::pair{"exact_accuracy", Recursive::kExact},
            std::pair{"q_halt_accuracy", Recursive::kQRight},
            std::pair{"steps", Recursive::kSteps}})
        metrics[std::string("out/metric/") + name].push_back(sums[metric]);
    }
    model_.take_table_rows();
    compare("out", kLimit, answers);
    compare("out/loss", kLimit, losses);
    compare("out/halted", kLimit, halting);
    compare("out/z", kLimit, states);
    compare("out/metric", kLimit, metrics);
    Group judged("grad", kLimit);
    for (const auto& [key, gradient] : gradients)
      judged.compare("grad/" + names_[key], gradient,
                     dump_.read("grad/" + names_[key], gradient.sizes()));
    judged.compare("grad/puzzle_emb.rows", table_gradient,
                   dump_.read("grad/puzzle_emb.rows", table_gradient.sizes()));
    result_.groups.push_back(judged.result());
    model_.zero_grad();
  }

  void evaluation() {
    const auto [x, y] = batch("batch", 0);
    std::map<std::string, std::vector<Tensor>> q;
    const auto last =
        model_.solve(x.slice(1, 1), x.select(1, 0), [&](int64_t, const Recursive::Answer& answer) {
          q["eval/q_halt"].push_back(answer.q.select(1, 0));
        });
    compare("eval/q_halt", kLimit, q);
    Group judged("eval/logits", kLimit);
    judged.compare("eval/logits", last.logits, dump_.read("eval/logits", last.logits.sizes()));
    result_.groups.push_back(judged.result());
  }

  void training() {
    TrainingStep training(model_,
                          {.method = "adam_atan2",
                           .beta1 = config_.beta1,
                           .beta2 = config_.beta2,
                           .weight_decay = config_.weight_decay,
                           .clip = config_.clip,
                           .table_decay = config_.table_decay,
                           .average = config_.ema},
                          model_.initial_carry(rows()));
    const auto number = [](double value) { return torch::full({}, value, torch::kFloat64); };
    const auto rate = [&](double base, int64_t step) {
      return Schedule{.peak = base,
                      .floor = config_.min_ratio * base,
                      .warmup = config_.warmup,
                      .total = config_.total_steps}
          .at(step);
    };
    std::map<std::string, std::vector<Tensor>> losses, norms, rates, halting;
    for (int64_t i = 0; i < train_steps(); ++i) {
      const auto [x, y] = batch("train", i);
      {
        // The same pass on a copy of the carry, for values that a training step does not return.
        Carry copy;
        for (const auto& [name, tensor] : training.carry().all()) copy.add(name, tensor);
        const auto step = model_.act_step({x, y}, copy);
        model_.take_table_rows();
        losses["train/q_halt"].push_back(step.answer.q.select(1, 0));
        losses["train/lm_loss"].push_back(step.scores.lm_loss.sum());
        losses["train/q_halt_loss"].push_back(step.scores.q_loss.sum());
        losses["train/gate_reg"].push_back(gate_of(step));
      }
      const auto lr = rate(config_.lr, i + 1), table_lr = rate(config_.table_lr, i + 1);
      const auto done = training.run(x, y, LearningRates(lr, table_lr));
      const auto total = done.auxiliary.defined() ? done.loss + done.auxiliary : done.loss;
      losses["train/loss"].push_back(total * static_cast<double>(rows()));
      norms["train/grad_norm"].push_back(done.gradient_norm);
      rates["train/lr"].push_back(number(lr));
      rates["train/puzzle_lr"].push_back(number(table_lr));
      halting["train/steps"].push_back(training.carry().at("steps").clone());
      halting["train/halted"].push_back(training.carry().at("halted").to(torch::kInt64));
    }
    compare("train", kLimit, losses);
    compare("train/grad_norm", kLimit, norms);
    compare("train/lr", kLimit, rates);
    compare("train/halted", kLimit, halting);
    compare_parameters("after", kLimitAfterTraining, "puzzle_emb.weights", model_.table(),
                       [](const Tensor& p) { return p.detach(); });
    const AveragedParameters averaged(training);
    compare_parameters("ema", kLimitAfterTraining, "", {},
                       [](const Tensor& p) { return p.detach(); });
  }

  Dump& dump_;
  RecursiveDumpConfig config_;
  Recursive model_;
  std::map<std::string, std::string> names_;
  Verification result_;
};

}  // namespace

bool is_recursive_kind(const std::string& kind) { return kind.starts_with("trm_"); }

Verification verify_recursive(Dump& dump) { return RecursiveCheck(dump).run(); }

}  // namespace geores
