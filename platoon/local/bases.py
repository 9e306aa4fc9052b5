"""The base models the service offers, made on the spot: seeded random parameters, and a tokenizer directory that loads offline.

A base directory holds `tokenizer.json` and `tokenizer_config.json` (with the chat template), which is what
`AutoTokenizer.from_pretrained(dir)` reads; `get_info` hands its path to clients as the tokenizer's name.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from platoon.artifacts.canonical import canonical_bytes
from platoon.artifacts.digests import hex_of, sha256_bytes
from platoon.artifacts.publish import publish_bytes
from platoon.local.refusals import NotFound
from platoon.local.shapes import ModelShape
from platoon.local.tokenizer_build import END_OF_TEXT, END_OF_TURN, byte_tokenizer

SHIPPED = Path(__file__).parent / "bases"
PARAMETER_SEED = 20_240_229


@dataclass(frozen=True)
class Base:
    """A base model. `tokenizer_json` and `chat_template` are what its directory is written from."""

    name: str
    shape: ModelShape
    tokenizer_json: str
    chat_template: str
    stop_token: int

    def parameters(self, seed: int = PARAMETER_SEED) -> npt.NDArray[np.float32]:
        """Fresh parameters, float32 (parameter_count,); the same for the same seed on every machine.

        Matrices have a standard deviation of hidden**-0.5: with the customary 0.02 a model this small learns several times slower.
        """
        # The legacy generator is used because its stream is frozen; it is no secret.
        source = np.random.RandomState(seed)
        flat = np.empty(self.shape.parameter_count, np.float32)
        for piece in self.shape.slices:
            values = np.ones(piece.size) if piece.name.endswith("norm") else source.standard_normal(piece.size)
            scale = 1.0 if piece.name.endswith("norm") else self.shape.hidden**-0.5
            flat[piece.offset : piece.offset + piece.size] = values * scale
        return flat

    def write_directory(self, parent: Path) -> Path:
        """Writes the tokenizer directory below `parent`, once; its name carries a digest of what it holds."""
        config = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": None,
            "eos_token": END_OF_TURN,
            "pad_token": END_OF_TEXT,
            "unk_token": None,
            "clean_up_tokenization_spaces": False,
            "model_max_length": self.shape.max_context,
            "chat_template": self.chat_template,
        }
        files = {"tokenizer.json": self.tokenizer_json.encode(), "tokenizer_config.json": canonical_bytes(config)}
        digest = hex_of(sha256_bytes(*(files[name] for name in sorted(files))))[:12]
        directory = parent / f"{self.name.replace('/', '-')}-{digest}"
        for name, data in files.items():
            publish_bytes(directory / name, data)
        return directory


@cache
def all_bases() -> dict[str, Base]:
    """Every base by name."""
    bases = [_tiny(), *(_shipped(directory) for directory in sorted(SHIPPED.iterdir()) if (directory / "tokenizer.json").is_file())]
    return {base.name: base for base in bases}


def find_base(name: str) -> Base:
    """The base of that name, or NotFound listing those there are."""
    try:
        return all_bases()[name]
    except KeyError:
        raise NotFound(f"unknown base model {name!r} (known: {', '.join(all_bases())})") from None


def _tiny() -> Base:
    template = (SHIPPED / "chat_template.jinja").read_text()
    return _base("local/tiny", byte_tokenizer(), template)


def _shipped(directory: Path) -> Base:
    """A base of `bases/<name>/`: tokenizer.json, and what differs from the others in chat_template.jinja and model.json (sizes)."""
    own = directory / "chat_template.jinja"
    template = (own if own.is_file() else SHIPPED / "chat_template.jinja").read_text()
    sizes = directory / "model.json"
    overrides = json.loads(sizes.read_bytes()) if sizes.is_file() else {}
    return _base(f"local/{directory.name}", (directory / "tokenizer.json").read_text(), template, **overrides)


def _base(name: str, tokenizer_json: str, template: str, **sizes: int) -> Base:
    content = json.loads(tokenizer_json)
    ids = {**content["model"]["vocab"], **{token["content"]: token["id"] for token in content["added_tokens"]}}
    return Base(name, ModelShape(vocab=max(ids.values()) + 1, **sizes), tokenizer_json, template, ids[END_OF_TURN])
