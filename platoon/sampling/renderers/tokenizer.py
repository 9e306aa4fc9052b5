"""A tokenizer directory: `tokenizer.json`, `tokenizer_config.json`, `chat_template.jinja`, `generation_config.json`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from platoon.artifacts.reading import parse_json, read_regular
from platoon.errors import ConfigError, Problem

SPECIAL_NAMES = ("bos_token", "eos_token", "pad_token", "unk_token")


@dataclass(frozen=True)
class TokenizerFiles:
    """template: None when the directory has no chat template. special: token texts by variable name. stop_tokens: never empty."""

    tokenizer: Tokenizer
    template: str | None
    special: dict[str, str]
    stop_tokens: tuple[int, ...]
    directory: Path


def load_tokenizer(directory: Path) -> TokenizerFiles:
    """Reads a directory. Raises ConfigError naming the file that is missing or unreadable."""
    path = directory / "tokenizer.json"
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # because the library raises the bare class for every fault
        raise ConfigError(Problem(f"not a readable tokenizer: {error}", file=str(path))) from error
    config = _object(directory / "tokenizer_config.json")
    special = {name: text for name in SPECIAL_NAMES if (text := _token_text(config.get(name))) is not None}
    stops = _stop_tokens(tokenizer, _object(directory / "generation_config.json"), special)
    if not stops:
        rule = "names no end token: neither eos_token here nor eos_token_id in generation_config.json"
        raise ConfigError(Problem(rule, file=str(directory / "tokenizer_config.json")))
    return TokenizerFiles(tokenizer, _template(directory, config), special, stops, directory)


def _object(path: Path) -> dict[str, Any]:
    try:
        value = parse_json(read_regular(path))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ConfigError(Problem(f"not a readable tokenizer file: {error}", file=str(path))) from error
    if not isinstance(value, dict):
        raise ConfigError(Problem("must be a JSON object", file=str(path)))
    return value


def _token_text(value: Any) -> str | None:
    if isinstance(value, dict):
        value = value.get("content")
    return value if isinstance(value, str) else None


def _stop_tokens(tokenizer: Tokenizer, generation: dict[str, Any], special: dict[str, str]) -> tuple[int, ...]:
    stated = generation.get("eos_token_id")
    if isinstance(stated, int):
        stated = [stated]
    if isinstance(stated, list) and stated and all(isinstance(item, int) and not isinstance(item, bool) for item in stated):
        return tuple(stated)
    found = tokenizer.token_to_id(special["eos_token"]) if "eos_token" in special else None
    return () if found is None else (int(found),)


def _template(directory: Path, config: dict[str, Any]) -> str | None:
    beside = directory / "chat_template.jinja"
    if beside.is_file():
        try:
            return beside.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise ConfigError(Problem(f"not a readable chat template: {error}", file=str(beside))) from error
    stated = config.get("chat_template")
    if isinstance(stated, list):
        stated = next((item.get("template") for item in stated if isinstance(item, dict) and item.get("name") == "default"), None)
    return stated if isinstance(stated, str) else None
