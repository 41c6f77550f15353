// A trained model in the page: one instance of predictor.wasm each.
import { isLoaded, loaded } from "./engine.ts";
import type { Out } from "./layout.ts";
import { layouts } from "./layout.ts";
import { Module } from "./modules.ts";

export interface PathState {
  i: number;
  j: number;
  x: number;
  y: number;
  theta: number;
  shown: number;
  feed: boolean;
  drawn?: readonly (readonly [number, number])[]; // a path drawn by hand, instead of a turn
}

export const rules = ["zero", "copy", "running mean", "two-state rule"] as const;
export const pathLength = 32;

export interface Prediction {
  inputs: Float64Array; // length × width, row by row
  targets: Float64Array;
  outputs: Float64Array;
  rules: Float64Array; // 4 × length × width
  probes: Float64Array; // length × operators × 3: γ, β, angle
  mse: number;
  rulesMse: Float64Array;
  errors: Float64Array;
  rulesErrors: Float64Array; // 4 × 256
}

type Info = Out<(typeof layouts.predictor)["predictor_model"]>;

export class Model {
  private constructor(
    readonly name: string,
    private readonly module: Module<"predictor">,
    readonly info: Info,
  ) {}

  static async start(name: string, code: WebAssembly.Module, weights: Uint8Array, config = "") {
    return new Model(
      name,
      ...Model.filled(await new Module("predictor", code).start(), weights, config),
    );
  }

  static startNow(name: string, code: WebAssembly.Module, weights: Uint8Array, config = "") {
    return new Model(
      name,
      ...Model.filled(new Module("predictor", code).startNow(), weights, config),
    );
  }

  private static filled(
    module: Module<"predictor">,
    weights: Uint8Array,
    config: string,
  ): [Module<"predictor">, Info] {
    module.guard(() => {
      const put = (buffer: string, bytes: Uint8Array) => {
        const address = module.function(buffer)(bytes.length);
        new Uint8Array(module.memory().buffer, address, bytes.length).set(bytes);
      };
      put("predictor_buffer", weights);
      put("predictor_config_buffer", new TextEncoder().encode(config));
      module.function("predictor_load")();
    });
    return [module, module.call("predictor_model", {})];
  }

  // The path's states, then the model's and the rules' predictions at every position.
  run(path: PathState): Prediction {
    const { module, info } = this;
    const width = info.input_width;
    const length = Math.min(pathLength, info.context);
    const { i, j, x, y, theta } = path;
    if (path.drawn) this.draw(path, length, width);
    else module.call("path", { i, j, x, y, theta, length, width });
    const answer = module.call("predict", { length, shown: path.shown, feed: path.feed ? 1 : 0 });
    const copy = (name: string, count: number) => module.doubles(name, count).slice();
    return {
      inputs: copy("predictor_inputs", length * width),
      targets: copy("predictor_targets", length * width),
      outputs: copy("predictor_outputs", length * width),
      rules: copy("predictor_rules", 4 * length * width),
      probes: copy("predictor_probes", length * info.operators * 3),
      mse: answer.model_mse,
      rulesMse: answer.rules_mse,
      errors: answer.errors.slice(0, length),
      rulesErrors: answer.rules_errors,
    };
  }

  // The model's predictions after each of the given states.
  outputsFor(states: ArrayLike<number>, length: number): Float64Array {
    this.module.doubles("predictor_inputs", states.length).set(states);
    this.module.call("predict", { length, shown: length, feed: 0 });
    return this.module.doubles("predictor_outputs", states.length).slice();
  }

  // A drawn path: each point becomes a state of length 1, by the same C++ that makes the turns.
  private draw(path: PathState, length: number, width: number) {
    const points = path.drawn!;
    const states = Array.from({ length: length + 1 }, (_, t) => {
      const [x, y] =
        points[Math.min(points.length - 1, Math.round((t * (points.length - 1)) / length))]!;
      this.module.call("path", { i: path.i, j: path.j, x, y, theta: 0, length: 1, width });
      return this.module.doubles("predictor_inputs", width).slice();
    });
    const inputs = this.module.doubles("predictor_inputs", length * width);
    const targets = this.module.doubles("predictor_targets", length * width);
    for (let t = 0; t < length; ++t) {
      inputs.set(states[t]!, t * width);
      targets.set(states[t + 1]!, t * width);
    }
  }
}

const models = new Map<string, Model>();
export const installModel = (model: Model) => models.set(model.name, model);
export const model = (name: string): Model | undefined => models.get(name);
export const polar = (x: number, y: number) =>
  isLoaded("operators")
    ? loaded("operators").call("polar", { x, y })
    : { length: 0, radians: 0, degrees: 0 };
