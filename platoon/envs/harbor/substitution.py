"""A regular expression's replacements in a text that nobody trusts, bounded in time.

An overlay's pattern is the researcher's, the text is a task's: `^(a+)+$` never ends on some. What can be tried in more than one way
runs in a process of its own, which ends after a limit whatever becomes of this one; anything else takes as long as the text is.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys

LIMIT_S = 10
# With one choice alone, a text of this length is done at once: at worst its square in steps.
SHORT_CHARACTERS = 10_000
_CHOICES = frozenset("*+?{|")
_CHILD = """
import json, re, signal, sys
asked = json.loads(sys.stdin.buffer.read())
signal.alarm(asked["limit_s"] + 1)
try:
    found = re.subn(asked["pattern"], asked["replace"], asked["text"], flags=re.MULTILINE)
except (re.error, IndexError) as error:
    found = str(error)
sys.stdout.write(json.dumps(found))
"""


class SubstitutionError(Exception):
    """Why there is no text. One sentence."""


def substitute(pattern: str, replacement: str, text: str) -> tuple[str, int]:
    """The text with every match (under MULTILINE) replaced, and how many there were. Raises SubstitutionError."""
    choices = sum(character in _CHOICES for character in pattern)
    if not choices or (choices == 1 and len(text) <= SHORT_CHARACTERS):
        try:
            return re.subn(pattern, replacement, text, flags=re.MULTILINE)
        except (re.error, IndexError) as error:
            raise SubstitutionError(f"the replacement is none: {error}") from None
    return _in_a_process(pattern, replacement, text)


def _in_a_process(pattern: str, replacement: str, text: str) -> tuple[str, int]:
    asked = json.dumps({"pattern": pattern, "replace": replacement, "text": text, "limit_s": LIMIT_S})
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", _CHILD], input=asked.encode(), capture_output=True, timeout=LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise SubstitutionError(f"the pattern takes longer than {LIMIT_S} seconds here (let no part match in many ways)") from None
    if done.returncode:
        raise SubstitutionError(f"the pattern ended its process with status {done.returncode}")
    found = json.loads(done.stdout)
    if isinstance(found, str):
        raise SubstitutionError(f"the replacement is none: {found}")
    changed, count = found
    return changed, count
