"""The JSON of tool calls, read strictly first and leniently once, in bounded total time.

Not JSON here, though Python would take it: NaN and infinities, numbers that overflow to one, and text that has no UTF-8 form.
"""

from __future__ import annotations

import json
from typing import Any


class CallJsonError(ValueError):
    """The text holds no call; the message says what is wrong."""


def _refuse_constant(name: str) -> Any:
    raise CallJsonError(f"{name} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise CallJsonError(f"{text} is out of range")
    return value


STRICT = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite)
LENIENT = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite, strict=False)
WORK_PER_CHARACTER = 8
LINE_COUNT_SPEED = 32


class CallJsonReader:
    """Decodes values at places of one text. The characters looked at in all are bounded by a multiple of its length."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._work_left = WORK_PER_CHARACTER * len(text) + 4096

    def decode(self, start: int) -> tuple[Any, int, bool]:
        """(value, end, recovered) of the value at `start`. Raises CallJsonError."""
        try:
            value, end = self._attempt(STRICT, start)
            recovered = False
        except json.JSONDecodeError as first:
            if not first.msg.startswith("Invalid control character"):
                raise CallJsonError(f"{first.msg} at character {first.pos - start} of the call") from None
            try:
                # The one leniency: control characters (a line break, most often) inside a string.
                value, end = self._attempt(LENIENT, start)
            except json.JSONDecodeError as error:
                raise CallJsonError(f"{error.msg} at character {error.pos - start} of the call") from None
            recovered = True
        return value, end, recovered

    def _attempt(self, decoder: json.JSONDecoder, start: int) -> tuple[Any, int]:
        if self._work_left <= 0:
            raise CallJsonError("too many broken calls in one reply")
        try:
            value, end = decoder.raw_decode(self.text, start)
        except json.JSONDecodeError as error:
            # An unterminated string was read to the end of the text although the error points at its beginning.
            unterminated = error.msg.startswith("Unterminated")
            self._work_left -= (len(self.text) if unterminated else error.pos) - start + 1
            # Building the error counted the lines before it, a few times faster a character than decoding.
            self._work_left -= error.pos // LINE_COUNT_SPEED
            raise
        except RecursionError:
            self._work_left -= len(self.text) - start
            raise CallJsonError("nested too deeply") from None
        except CallJsonError:
            self._work_left -= len(self.text) - start
            raise
        except ValueError as error:
            self._work_left -= len(self.text) - start
            raise CallJsonError(str(error)) from None
        self._work_left -= end - start
        return value, end


def check_encodable(value: Any) -> None:
    """Raises CallJsonError for a value with lone surrogates, which no prompt could hold again, or nested too deeply to write."""
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise CallJsonError("a string with a lone surrogate") from None
    except RecursionError:
        raise CallJsonError("nested too deeply") from None
