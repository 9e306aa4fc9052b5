"""Building the tokenizers of the bases: byte-level BPE, from nothing but bytes or trained on a text.

Ids: the three special tokens first, then the 256 bytes, then merges, then the markers, which are added but not special, so that
decoding with `skip_special_tokens` keeps them. Training is deterministic for one version of `tokenizers`; the trained file is
shipped, never retrained. Run `python -m platoon.local.tokenizer_build TEXT OUT --vocabulary 512` to make one.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from platoon.artifacts.publish import WRITABLE, publish_bytes

if TYPE_CHECKING:
    from tokenizers import Tokenizer

END_OF_TEXT, START_OF_TURN, END_OF_TURN = SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
MARKERS = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>")


def byte_tokenizer() -> str:
    """The `tokenizer.json` of a vocabulary of single bytes, 265 ids."""
    return _finish(_trained((), len(SPECIAL) + 256))


def bpe_tokenizer(texts: Iterable[str], vocabulary: int) -> str:
    """The `tokenizer.json` of a BPE of `vocabulary` ids, specials and markers included, trained on `texts`."""
    return _finish(_trained(texts, vocabulary - len(MARKERS)))


def _trained(texts: Iterable[str], size: int) -> Tokenizer:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=list(SPECIAL),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def _finish(tokenizer: Tokenizer) -> str:
    tokenizer.add_special_tokens(list(SPECIAL))
    tokenizer.add_tokens(list(MARKERS))
    return f"{tokenizer.to_str(pretty=True)}\n"


def main() -> None:
    """Trains a tokenizer on a text file and writes its tokenizer.json."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("text", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--vocabulary", type=int, default=512)
    arguments = parser.parse_args()
    text = arguments.text.read_text()
    publish_bytes(arguments.out, bpe_tokenizer(text.splitlines(keepends=True), arguments.vocabulary).encode(), WRITABLE)


if __name__ == "__main__":
    main()
