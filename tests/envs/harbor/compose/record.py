"""Writes the digest of its plan into each accepted case of the corpus, and names the cases whose plan is another one.

    python -m tests.envs.harbor.compose.record

Read what changed (`git diff` of the plans' code, `platoon harbor plan`) before the digests are committed: they are the expectation.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.envs.harbor.compose.corpus import CORPUS, MARK, Case, cases, digest, topics


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for number, case in enumerate(case for topic in topics() for case in cases(topic) if case.refused is None):
            wanted = digest(case.plan(Path(folder) / str(number)))
            if case.header.get("plan") != wanted:
                (CORPUS / f"{case.name}.yaml").write_text(recorded(case, wanted), encoding="utf-8")
                print(case.name)


def recorded(case: Case, wanted: str) -> str:
    """The case's text with the digest as the last line of its header."""
    lines = case.text.splitlines(keepends=True)
    header = sum(line.startswith(MARK) for line in lines)
    return "".join([*lines[:header], f"{MARK}plan: {wanted}\n", *lines[header:]])


if __name__ == "__main__":
    main()
