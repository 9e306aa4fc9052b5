"""One Harbor task directory: its files, its `task.toml`, its instruction, and whether it can run at all.

Assumes nothing of the directory. Guarantees that a task which `read_task` returns has an instruction, tests and valid settings; any
other is refused by a `TaskRefused` whose text is what a lock records (`task_config: <why>`, paths relative to the task). Sizes are
bounded before anything is read.

    task = read_task(Path("tasks/add-numbers"))
    task.instruction, task.agent.timeout_sec, task.verifier.env
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from platoon._native import is_ignored
from platoon.artifacts.reading import parse_toml
from platoon.config.problems import from_validation_error
from platoon.config.text import printable, short_path
from platoon.envs.harbor.task_toml import AgentTable, Artifact, EnvironmentTable, TaskToml, VerifierTable
from platoon.errors import PlatoonError
from platoon.host.trees import is_file

HASHED_FILES = ("task.toml", "instruction.md", "README.md", "trajectory.json")
HASHED_DIRECTORIES = ("environment", "tests", "solution", "steps")
IGNORE_FILE = ".gitignore"
# What a task without an ignore file of its own leaves out of its content hash.
DEFAULT_IGNORES = "__pycache__/\n*.pyc\n.DS_Store\n*.swp\n*.swo\n*~\n"
DOCKERFILE = "environment/Dockerfile"
COMPOSE_FILE = "environment/docker-compose.yaml"
# What is read by its name; a task may do without some of it.
NAMED_FILES = ("task.toml", "instruction.md", "tests/test.sh", DOCKERFILE, COMPOSE_FILE, "tests/Dockerfile", "solution/solve.sh")
UNREAD_COMPOSE_FILES = ("docker-compose.yml", "compose.yaml", "compose.yml")
TOML_LIMIT_BYTES = 1024 * 1024
INSTRUCTION_LIMIT_BYTES = 8 * 1024 * 1024
# Of what a lock records about one task.
MOST_PROBLEMS = 20
MOST_PROBLEM_CHARACTERS = 500
# Keys by which a task needs other files, and those that its images and the texts of its compose file are made from.
_NAMES_FILES = re.compile(r"verifier(\.environment.*)?|steps.*", re.DOTALL)
_PLANNED_FROM = re.compile(r"environment(\.(docker_image|env)(\..*)?)?", re.DOTALL)


class TaskRefused(PlatoonError):
    """A task that a lock records as refused. code: one of the lock's refusal codes; why: one sentence.

    problems: that, and what else is wrong of the same kind.
    """

    def __init__(self, code: str, why: str, *more: str) -> None:
        self.code, self.why = code, why
        self.problems = (why, *more)
        super().__init__(self.refusal)

    @property
    def refusal(self) -> str:
        return f"{self.code}: {self.why}"


@dataclass(frozen=True)
class HarborTask:
    """A task that can run. instruction: without canary lines. What gives its image is in its lock row's plan."""

    directory: Path
    name: str | None
    instruction: str
    metadata: Mapping[str, Any]
    environment: EnvironmentTable
    agent: AgentTable
    verifier: VerifierTable
    solution_env: Mapping[str, str]
    artifacts: tuple[Artifact, ...]
    has_solution: bool


def read_task(directory: Path) -> HarborTask:
    """The task of a directory. Raises TaskRefused."""
    toml = read_toml(directory)
    instruction = check_files(directory, toml)
    return HarborTask(
        directory=directory,
        name=None if toml.task is None else toml.task.name,
        instruction=instruction,
        metadata=toml.metadata,
        environment=toml.environment,
        agent=toml.agent,
        verifier=toml.verifier,
        solution_env=toml.solution.env,
        artifacts=tuple(toml.artifacts),
        has_solution=is_file(directory / "solution/solve.sh"),
    )


def check_files(directory: Path, toml: TaskToml) -> str:
    """The instruction of a task with these settings. Raises TaskRefused for what cannot be run, with every problem."""
    problems: list[str] = []
    if toml.steps:
        problems.append("task.toml: steps: tasks of several steps are not run")
    if toml.environment.os.lower() != "linux":
        problems.append(f"task.toml: environment.os: only linux is run, got {printable(toml.environment.os)}")
    if (directory / "tests/docker-compose.yaml").exists():
        problems.append("tests/docker-compose.yaml: a verifier of several containers is not run")
    if not toml.steps and not _bundles_tests(directory, toml) and not is_file(directory / "tests/test.sh"):
        problems.append("tests/test.sh: a task needs tests, and this file is missing")
    instruction = ""
    try:
        if not toml.steps:
            instruction = read_instruction(directory)
    except TaskRefused as refused:
        problems.append(refused.why)
    if problems:
        raise TaskRefused("task_config", *problems)
    return instruction


def read_toml(directory: Path) -> TaskToml:
    """A task's settings alone. Raises TaskRefused naming the wrong keys, the first of many."""
    values = _toml_values(directory)
    try:
        return TaskToml.model_validate(values)
    except ValidationError as error:
        problems = from_validation_error(error, TaskToml, values, lambda path: "")
        raise TaskRefused("task_config", "task.toml: " + _listed([str(problem) for problem in problems])) from None


def right_parts(directory: Path) -> tuple[TaskToml | None, bool]:
    """What a `task.toml` says beside what `read_toml` refuses in it, and whether that is enough to plan the task by.

    None where it is not enough to tell which files the task needs.
    """
    plans = True
    try:
        values = _toml_values(directory)
    except TaskRefused:
        return None, False
    for _ in range(MOST_PROBLEMS):
        try:
            return TaskToml.model_validate(values), plans
        except ValidationError as error:
            keys = [problem.key for problem in from_validation_error(error, TaskToml, values, lambda path: "")]
        if any(_NAMES_FILES.fullmatch(key) for key in keys):
            break
        plans = plans and not any(_PLANNED_FROM.fullmatch(key) for key in keys)
        for key in keys:
            _drop(values, key.split("."))
    return None, False


def read_instruction(directory: Path) -> str:
    """The prompt of a task without canary lines. Raises TaskRefused when there is none."""
    text = cut_canary(_read(directory, "instruction.md", INSTRUCTION_LIMIT_BYTES))
    if not text.strip():
        raise TaskRefused("task_config", "instruction.md: is empty")
    return text


def read_dockerfile(directory: Path, name: str = DOCKERFILE) -> str | None:
    """The text of a Dockerfile of a task, None where there is none. Raises TaskRefused (`image`) for one that cannot be read."""
    if not is_file(directory / name):
        return None
    try:
        return _read(directory, name, TOML_LIMIT_BYTES)
    except TaskRefused as refused:
        raise TaskRefused("image", refused.why) from None


def hidden_files(directory: Path) -> Iterator[str]:
    """The lines of a task's ignore file that leave out a file which is read by its name, each with the first such file, for a
    warning: the content hash does not cover what is ignored, so no lock may tell of it, nor is it told whether it was there."""
    if not is_file(directory / IGNORE_FILE):
        return
    with (directory / IGNORE_FILE).open("rb") as file:
        text = file.read(TOML_LIMIT_BYTES).decode("utf-8", "replace")
    found: dict[str, str] = {}
    for name in NAMED_FILES:
        if not is_file(directory / name) and is_ignored(text, name):
            # The last line that matches decides.
            line = next((line for line in reversed(text.split("\n")) if is_ignored(line, name)), "")
            found.setdefault(line.strip(), name)
    for line, name in found.items():
        yield f"{name} is left out by {short_path(line)} in its {IGNORE_FILE}"


def cut_canary(text: str) -> str:
    """Text without the canary lines at its top and the blank lines below them."""
    lines = text.splitlines(keepends=True)
    count = 0
    while count < len(lines) and _is_canary(lines[count].strip().lower()):
        count += 1
    if count:
        while count < len(lines) and not lines[count].strip():
            count += 1
    return "".join(lines[count:])


def _is_canary(line: str) -> bool:
    return "canary" in line and (line.startswith("#") or (line.startswith("<!--") and line.endswith("-->")))


def _drop(values: dict[str, Any], path: Sequence[str]) -> None:
    """Drops what lies at a path, or the deepest table's key on the way to it."""
    key, *rest = path
    inner = values.get(key)
    if rest and isinstance(inner, dict) and rest[0] in inner:
        _drop(inner, rest)
    else:
        values.pop(key, None)


def _toml_values(directory: Path) -> dict[str, Any]:
    try:
        return parse_toml(_read(directory, "task.toml", TOML_LIMIT_BYTES))
    except ValueError as error:
        raise TaskRefused("task_config", f"task.toml: {printable(str(error))}") from None


def _bundles_tests(directory: Path, toml: TaskToml) -> bool:
    verifier = toml.verifier
    own_image = verifier.environment is not None and verifier.environment.docker_image is not None
    return verifier.separate and (own_image or is_file(directory / "tests/Dockerfile"))


def _listed(problems: list[str]) -> str:
    shown = [text if len(text) <= MOST_PROBLEM_CHARACTERS else f"{text[:MOST_PROBLEM_CHARACTERS]}…" for text in problems]
    more = [f"and {len(problems) - MOST_PROBLEMS} more"] if len(problems) > MOST_PROBLEMS else []
    return "; ".join(shown[:MOST_PROBLEMS] + more)


def _read(directory: Path, name: str, limit_bytes: int) -> str:
    path = directory / name
    if not is_file(path):
        raise TaskRefused("task_config", f"{name}: is missing, or no file")
    try:
        with path.open("rb") as file:
            data = file.read(limit_bytes + 1)
    except OSError as error:
        raise TaskRefused("task_config", f"{name}: cannot be read: {error.strerror}") from None
    if len(data) > limit_bytes:
        raise TaskRefused("task_config", f"{name}: has more than {limit_bytes} bytes")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise TaskRefused("task_config", f"{name}: is not UTF-8 (byte {error.start})") from None
