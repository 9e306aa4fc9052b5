"""Measures whether the quickstart learns: three seeds and two controls, into a table. About three minutes a seed on two idle cores.

    python recipes/quickstart/measure.py OUT [--seeds 0 1 2] [--controls 0] [--rl KEY=VALUE ...]

Every row is `platoon train` and `platoon eval` on the files of this folder, below OUT. Controls start from the warm start of their
seed: `rate 0` sets the learning rate to 0; `shuffled` deals each step's advantages out among its rows anew, so that what is
learnt has nothing to do with what was rewarded. What is there already is kept.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
SHUFFLED = "--with-shuffled-advantages"
NUMBERS = ("reward", "parsed", "state")


def main() -> None:
    parser = argparse.ArgumentParser(description="Measures whether the quickstart learns.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--controls", type=int, nargs="*", default=[0], help="seeds of the controls")
    parser.add_argument("--rl", nargs="*", default=[], help="changes to rl.yaml")
    arguments = parser.parse_args()
    out: Path = arguments.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    (out / "site.yaml").write_text("cache: cache\nruns: runs\n")
    rows = []
    for seed in arguments.seeds:
        rows.append(measure(out, f"seed {seed}", seed, arguments.rl))
    for seed in arguments.controls:
        rows.append(measure(out, f"seed {seed}, rate 0", seed, [*arguments.rl, "train.optimizer.learning_rate=0.0"]))
        rows.append(measure(out, f"seed {seed}, shuffled", seed, arguments.rl, shuffled=True))
    sys.stdout.write(table(rows) + "\n")


def measure(out: Path, title: str, seed: int, changes: Sequence[str], *, shuffled: bool = False) -> list[str]:
    """One row of the table: title, then before, after and difference of each number."""
    warm, name = f"warm-{seed}", title.replace(" ", "-").replace(",", "")
    platoon(out, "train", "sft.yaml", f"seed={seed}", "--run", warm, receipt=f"{warm}.json")
    before = evaluation(out, seed, warm)
    options = ["--run", name, "--from", str(out / f"{warm}.json")]
    platoon(out, "train", "rl.yaml", f"seed={seed}", *changes, *options, receipt=f"{name}.json", shuffled=shuffled)
    after = evaluation(out, seed, name)
    cells = [f"{before[key]:.3f} → {after[key]:.3f} ({after[key] - before[key]:+.3f})" for key in NUMBERS]
    sys.stderr.write(f"{title}: {'; '.join(cells)}\n")
    return [title, *cells, str(after["rollouts"])]


def evaluation(out: Path, seed: int, run: str) -> dict[str, Any]:
    receipt = f"{run}.eval.json"
    platoon(out, "eval", "eval.yaml", f"seed={seed}", "--of", str(out / f"{run}.json"), "--name", f"of-{run}", receipt=receipt)
    found = json.loads((out / receipt).read_bytes())["figures"]
    return {**found["components"], "rollouts": found["rollouts"]}


def platoon(out: Path, command: str, config: str, *arguments: str, receipt: str, shuffled: bool = False) -> None:
    """One command, unless its receipt is there."""
    if (out / receipt).exists():
        return
    start = [str(Path(__file__)), SHUFFLED] if shuffled else ["-m", "platoon"]
    line = [sys.executable, *start, command, str(FOLDER / config), *arguments]
    line += ["--receipt", str(out / receipt), "--site", str(out / "site.yaml"), "--log-file", str(out / f"{receipt}.log")]
    subprocess.run(line, check=True, stdout=subprocess.DEVNULL)


def table(rows: Sequence[Sequence[str]]) -> str:
    head = ["run", *NUMBERS, "rollouts"]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [head, ["---"] * len(head), *rows])


def shuffle_advantages() -> None:
    """Makes every step of this process train on advantages that were dealt out among its rows anew."""
    import numpy as np

    from platoon.train.step import step as module

    step: Any = module
    assemble, steps = step.assemble_microbatch, iter(range(sys.maxsize))

    def shuffled(groups: Sequence[Any], *rest: Any) -> Any:
        seed = int.from_bytes(hashlib.sha256(f"shuffled:{next(steps)}".encode()).digest()[:8], "big")
        held = [group for group in groups if group.group.output.values_R is not None]
        sizes = [len(group.group.output.values_R) for group in held]
        values_R = np.concatenate([group.group.output.values_R for group in held])
        dealt = np.split(np.random.default_rng(seed).permutation(values_R), np.cumsum(sizes)[:-1])
        changed = {id(group): with_values(group, part) for group, part in zip(held, dealt, strict=True)}
        return assemble([changed.get(id(group), group) for group in groups], *rest)

    step.assemble_microbatch = shuffled


def with_values(judged: Any, values_R: Any) -> Any:
    output = dataclasses.replace(judged.group.output, values_R=values_R)
    return dataclasses.replace(judged, group=dataclasses.replace(judged.group, output=output))


if __name__ == "__main__":
    if SHUFFLED in sys.argv[1:2]:
        from platoon.cli.main import main as command_line

        shuffle_advantages()
        sys.argv[:] = ["platoon", *sys.argv[2:]]
        command_line()
    else:
        main()
