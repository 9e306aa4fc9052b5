"""Builds the fuzz targets and runs each for a while: `python native/fuzz/run.py [--json FILE] [TARGET...]`.

FUZZ_SECONDS (60) is the time a target gets, FUZZ_JOBS (the usable cores) how many run at once. Needs cargo and a C++ compiler; a
stable toolchain will do, since RUSTC_BOOTSTRAP opens its sanitizer. Prints a table: executions, seconds and outcome of each target.
`--json` puts the same into a file as soon as a target ended: one row a target, in the place of the row that stood there for it.
A finding ends with exit 1 and the place of the input, kept below `artifacts/`; a target that was killed ends with exit 1 too. New
corpus entries are thrown away unless FUZZ_CORPUS names a place to keep them.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
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
CLEAN = "clean"
FROM_OUTSIDE = {by.value: by.name for by in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGKILL)}


@dataclass(frozen=True)
class Outcome:
    """result: clean, found something, or how it ended too early. seconds: how long it took. log: the last lines where not clean."""

    target: str
    executions: int
    seconds: int
    result: str = CLEAN
    log: str = ""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="native/fuzz/run.py", description="each parser against made-up input")
    parser.add_argument("names", nargs="*", metavar="TARGET", help="all without one")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the counts are kept, a row a target")
    options = parser.parse_args(arguments)
    targets = sorted(path.stem for path in (HERE / "fuzz_targets").glob("*.rs"))
    names = options.names or targets
    if unknown := set(names) - set(targets):
        print(f"no target {', '.join(sorted(unknown))}; there are {', '.join(targets)}", file=sys.stderr)
        return 64
    seconds = int(os.environ.get("FUZZ_SECONDS", "60"))
    jobs = int(os.environ.get("FUZZ_JOBS", "0")) or len(os.sched_getaffinity(0))
    programs, commit, lock = build(), commit_of(), threading.Lock()

    def search(name: str) -> Outcome:
        outcome = run(programs / name, seconds)
        if options.json:
            with lock:
                keep(options.json, commit, outcome)
        return outcome

    with ThreadPoolExecutor(jobs) as pool:
        outcomes = list(pool.map(search, names))
    print("| target | executions | seconds | outcome |\n|---|---:|---:|---|")
    for outcome in outcomes:
        print(f"| {outcome.target} | {outcome.executions:,} | {outcome.seconds} | {outcome.result} |")
    for outcome in outcomes:
        if outcome.result != CLEAN:
            print(f"\n== {outcome.target}\n{outcome.log}")
    return int(any(outcome.result != CLEAN for outcome in outcomes))


def keep(place: Path, commit: str, outcome: Outcome) -> None:
    """Puts the row of a target into the file. Rows of targets that are gone go."""
    row = {
        "target": outcome.target,
        "executions": outcome.executions,
        "seconds": outcome.seconds,
        "result": outcome.result,
        "commit": commit,
    }
    rows = {known["target"]: known for known in json.loads(place.read_text())} if place.exists() else {}
    rows[outcome.target] = row
    here = [row for name, row in sorted(rows.items()) if (HERE / "fuzz_targets" / f"{name}.rs").exists()]
    part = place.with_name(f"{place.name}.part")
    part.write_text(json.dumps(here, indent=1) + "\n")
    part.replace(place)


def commit_of() -> str:
    """The last one that changed what is fuzzed; `-dirty` where files differ from it, empty where there is no repository."""

    def git(*arguments: str) -> str:
        command = ["git", *arguments, "--", str(HERE.parent)]
        return subprocess.run(command, check=False, capture_output=True, text=True, cwd=HERE).stdout.strip()

    return git("log", "-1", "--abbrev=12", "--format=%h") + "-dirty" * bool(git("status", "--porcelain"))


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
        start = time.monotonic()
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
            return Outcome(program.name, 0, seconds + GRACE_S, f"still running {GRACE_S} s after its time")
    taken_s = round(time.monotonic() - start)
    text = ended.stdout.decode(errors="replace")
    counts = re.findall(r"^(?:Done |#)(\d+)", text, re.MULTILINE)
    executions = int(counts[-1]) if counts else 0
    if ended.returncode == 0:
        return Outcome(program.name, executions, taken_s)
    by = FROM_OUTSIDE.get(-ended.returncode)
    result = f"killed ({by})" if by else "found something"
    return Outcome(program.name, executions, taken_s, result, "\n".join(text.splitlines()[-40:]))


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
