"""Builds the fuzz targets and runs each for a while: `python native/fuzz/run.py [TARGET...]`.

FUZZ_SECONDS (60) is the time a target gets, FUZZ_JOBS (the usable cores) how many run at once. Needs cargo and a C++ compiler; a
stable toolchain will do, since RUSTC_BOOTSTRAP opens its sanitizer. Prints executions a target. A finding ends with exit 1 and the
place of the input, kept below `artifacts/`. New corpus entries are thrown away unless FUZZ_CORPUS names a place to keep them.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
# What cargo-fuzz sets: edge coverage for the search, compares for its guesses, addresses checked.
FLAGS = (
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Zsanitizer=address",
    "--cfg=fuzzing",
)
# One input may neither think long nor ask for much: allocation is bounded by the size of what is read.
LIMITS = ("-timeout=10", "-rss_limit_mb=2048", "-malloc_limit_mb=512")
# The search for leaks traces the process, which containers forbid.
SANITIZER = {"ASAN_OPTIONS": "detect_leaks=0"}
# What libFuzzer adds when its time is up, beyond the last input.
GRACE_S = 120


@dataclass(frozen=True)
class Outcome:
    """log: the last lines of a run that found something, empty for a clean one."""

    target: str
    executions: int
    log: str


def main(names: list[str]) -> int:
    targets = sorted(path.stem for path in (HERE / "fuzz_targets").glob("*.rs"))
    if unknown := set(names) - set(targets):
        print(f"no target {', '.join(sorted(unknown))}; there are {', '.join(targets)}", file=sys.stderr)
        return 64
    seconds = int(os.environ.get("FUZZ_SECONDS", "60"))
    jobs = int(os.environ.get("FUZZ_JOBS", "0")) or len(os.sched_getaffinity(0))
    programs = build()
    with ThreadPoolExecutor(jobs) as pool:
        outcomes = list(pool.map(lambda name: run(programs / name, seconds), names or targets))
    for outcome in outcomes:
        print(f"{outcome.target:24} {outcome.executions:>12,} executions  {'FOUND SOMETHING' if outcome.log else 'clean'}")
    for outcome in outcomes:
        if outcome.log:
            print(f"\n== {outcome.target}\n{outcome.log}")
    return int(any(outcome.log for outcome in outcomes))


def build() -> Path:
    """Where the built targets lie."""
    version = subprocess.run(["rustc", "-vV"], check=True, capture_output=True, text=True, cwd=HERE).stdout
    host = version.partition("host: ")[2].split()[0]
    output = Path(os.environ.get("FUZZ_TARGET_DIR", HERE / "target"))
    environment = {**os.environ, "RUSTC_BOOTSTRAP": "1", "RUSTFLAGS": " ".join(FLAGS), "CARGO_TARGET_DIR": str(output)}
    # Named, so that build scripts and procedural macros stay free of the flags.
    command = ["cargo", "build", "--quiet", "--locked", "--release", "--bins", "--target", host]
    subprocess.run(command, check=True, cwd=HERE, env=environment)
    return output / host / "release"


def run(program: Path, seconds: int) -> Outcome:
    """One target from its seeds, `seconds` long or until it finds something."""
    artifacts = HERE / "artifacts" / program.name
    artifacts.mkdir(parents=True, exist_ok=True)
    with found_inputs(program.name) as found:
        places = [str(found), str(HERE / "corpus" / program.name)]
        command = [str(program), f"-max_total_time={seconds}", *LIMITS, f"-artifact_prefix={artifacts}/", *places]
        # A target that makes files makes them in memory where it can.
        temporary = "/dev/shm" if os.access("/dev/shm", os.W_OK) else tempfile.gettempdir()
        try:
            ended = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=seconds + GRACE_S,
                env={**os.environ, **SANITIZER, "TMPDIR": temporary},
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Outcome(program.name, 0, f"still running {GRACE_S} s after its time")
    text = ended.stdout.decode(errors="replace")
    counts = re.findall(r"^(?:Done |#)(\d+)", text, re.MULTILINE)
    return Outcome(
        program.name, int(counts[-1]) if counts else 0, "" if ended.returncode == 0 else "\n".join(text.splitlines()[-40:])
    )


@contextlib.contextmanager
def found_inputs(target: str) -> Iterator[Path]:
    """Where the search keeps inputs that reach something new."""
    if kept := os.environ.get("FUZZ_CORPUS"):
        place = Path(kept) / target
        place.mkdir(parents=True, exist_ok=True)
        yield place
    else:
        with tempfile.TemporaryDirectory() as made:
            yield Path(made)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
