"""Runs of the program: configuration, weights, metrics and text."""

import functools
import json
import pathlib
from typing import Any, Dict, List, Optional, Union

import torch
from torch import Tensor

from .files import load_safetensors
from .nn import Stack
from .residual import connections

# Options of the transformer that geores.nn.Stack has not, with the only value it computes.
_FIXED = {
    "model": "transformer",
    "attention": "causal",
    "input_map": "learned",
    "output_length": "free",
    "past": "none",
    "maps": "none",
    "branch_width": 0,
}


class Run:
    """A folder that `geores train --out` wrote.

    >>> run = geores.Run("runs/first")
    >>> run.config["connection"], run.result["best_validation"]
    >>> run.metrics                      # a list of dicts, or a DataFrame where pandas is installed
    >>> run.model(ids)                   # a run on text: geores.nn.Stack with the best weights
    >>> run.generate("ROMEO:", 100)
    """

    def __init__(self, folder: Union[str, pathlib.Path]):
        self.folder = pathlib.Path(folder)
        self.config: Dict[str, Any] = self._json("config.json")
        self.result: Dict[str, Any] = self._json("result.json") if (self.folder / "result.json").is_file() else {}

    def _json(self, name: str) -> Dict[str, Any]:
        path = self.folder / name
        if not path.is_file():
            raise FileNotFoundError(f"{self.folder} is not a run: it has no {name}")
        return json.loads(path.read_text())

    def __repr__(self) -> str:
        return f"Run('{self.folder}': {self.config.get('connection')} on {self.config.get('task')})"

    @property
    def lines(self) -> List[Dict[str, Any]]:
        """The lines of metrics.jsonl: losses, rates and, for connections with a gate, its values."""
        path = self.folder / "metrics.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []

    @property
    def metrics(self) -> Any:
        """The same as a DataFrame, where pandas is installed."""
        try:
            import pandas
        except ImportError:
            return self.lines
        return pandas.DataFrame(self.lines)

    @functools.cached_property
    def weights(self) -> Dict[str, Tensor]:
        """The weights of the best evaluation, by name."""
        return load_safetensors(self.folder / "best.safetensors")

    @functools.cached_property
    def model(self) -> Stack:
        """The language model of a run on text, with the weights of the best evaluation."""
        config = self.config
        if config.get("task") != "text":
            raise ValueError(f"{self.folder} is a run on {config.get('task')}: only runs on text have a model in Python")
        for key, value in _FIXED.items():
            if config.get(key, value) != value:
                raise ValueError(f"{self.folder} has {key} = {config[key]}, which geores.nn.Stack does not compute")
        known = [c for c in connections() if c["name"] == config["connection"]]
        options = {o["name"]: config[o["name"]] for c in known for o in c["options"] if o["name"] in config}
        data = self._json("model.json")["data"]
        # `mlp` and `positions` are options of the transformer.
        model = Stack(
            config["connection"],
            vocabulary=data["vocabulary"],
            layers=config["layers"],
            width=config["width"],
            heads=config["heads"],
            context=data["length"] + data["spare_positions"],
            streams=config["streams"],
            rotary=config.get("positions", "learned") == "rotary",
            mlp=config.get("mlp", "gelu"),
            **options,
        )
        model.load_state_dict(self.weights)
        return model.eval()

    @functools.cached_property
    def tokenizer(self) -> "Tokenizer":
        return Tokenizer(self._json("tokenizer.json"))

    @torch.no_grad()
    def generate(
        self, prompt: str, tokens: int, temperature: float = 1.0, generator: Optional[torch.Generator] = None
    ) -> str:
        """The prompt and so many tokens after it; temperature 0 takes the likeliest."""
        if temperature < 0:
            raise ValueError(f"temperature must be >= 0, got {temperature}")
        ids = self.tokenizer.encode(prompt)
        if not ids:
            raise ValueError("the prompt must have at least one token")
        device = self.model.embedding.device
        for _ in range(tokens):
            window = torch.tensor([ids[-self.model.context :]], device=device)
            logits = self.model(window)[0, -1]
            if temperature == 0:
                ids.append(int(logits.argmax()))
            else:
                weights = (logits / temperature).softmax(-1)
                ids.append(int(torch.multinomial(weights.cpu(), 1, generator=generator)))
        return self.tokenizer.decode(ids)


class Tokenizer:
    """The characters or bytes of a run's text."""

    def __init__(self, description: Dict[str, Any]):
        self.kind = description["type"]
        if self.kind not in ("chars", "bytes"):
            raise ValueError(f"tokeniser '{self.kind}' works in the program alone: geores generate")
        self.characters = description.get("characters", "")

    def encode(self, text: str) -> List[int]:
        if self.kind == "bytes":
            return list(text.encode())
        for character in text:
            if character not in self.characters:
                raise ValueError(f"the tokeniser has no character {character!r}")
        return [self.characters.index(character) for character in text]

    def decode(self, ids: List[int]) -> str:
        if self.kind == "bytes":
            return bytes(ids).decode(errors="replace")
        return "".join(self.characters[i] for i in ids)
