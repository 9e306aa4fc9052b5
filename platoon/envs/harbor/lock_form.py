"""What stands in a lock, key by key: the one reader of its values, which takes nothing that a fetch would not have written.

A lock is read far from where it was written, by programs that open paths and build images by it. So every value is held to its type
and rule, and to the others of its row: a lock that reads is whole. What release 0.4 wrote has fewer keys, and is held to those.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, Field, ValidationError

from platoon.artifacts.canonical import canonical_digest
from platoon.config.model import ConfigModel, NonNegativeInt
from platoon.config.problems import from_validation_error
from platoon.config.text import short_path, show
from platoon.envs.harbor.names import id_fault, path_fault
from platoon.envs.harbor.options import Scalar
from platoon.errors import ConfigError, Problem

# In the order in which the first that applies is recorded.
REFUSAL_CODES = (
    *("overlay", "stack", "gpus", "agent_user", "compose", "task_config", "image", "uploads_over_mb"),
    "per_task_build",
)
ADVICE = "fetch the dataset again"
# Kinds of stacks whose tasks have a plan.
PLANNED = frozenset({"main_only", "sidecars"})


def _is_id(name: str) -> str:
    if (fault := id_fault(name)) is not None:
        raise ValueError(fault)
    return name


def _is_path(path: str) -> str:
    if (fault := path_fault(path)) is not None:
        raise ValueError(fault)
    return path


def _is_refusal(text: str) -> str:
    code, _, why = text.partition(": ")
    if code not in REFUSAL_CODES or not why:
        raise ValueError(f"must be CODE: WHY, with a code of {', '.join(REFUSAL_CODES)}")
    return text


Model = TypeVar("Model", bound=ConfigModel)
Digest = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
Hex = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
User = str | int | None
Network = Literal["public", "allowlist", "no-network"]


class Flags(ConfigModel):
    """A task that cannot run may lack any: what it was refused for may be why they are not known."""

    stack: Literal["single", "trivial", "main_only", "sidecars"] = "single"
    unread_compose: list[str] = Field(default_factory=list)
    verifier: Literal["shared", "separate"] = "shared"
    artifacts: NonNegativeInt = 0
    network: Network = "public"
    verifier_network: Network = "public"
    gpus: NonNegativeInt = 0
    agent_user: User = None
    verifier_user: User = None
    os: str = "linux"
    upload_bytes: NonNegativeInt = 0


# Of a task that can run.
ALWAYS_FLAGGED = frozenset(Flags.model_fields) - {"unread_compose", "verifier_network"}


class Image(ConfigModel):
    """error: of release 0.4."""

    kind: Literal["none", "prebuilt", "shared", "per_task"]
    ref: str | None = None
    upload_environment: bool | None = None
    key: Digest | None = None
    base: list[str] | None = None
    deferred: list[Annotated[list[str], Field(min_length=1)]] | None = None
    suffix_user: str | None = None
    config: dict[str, Any] | None = None
    args: dict[str, str] | None = None
    target: str | None = None
    dockerfile: str | None = None
    context: str | None = None
    notes: list[str] | None = None
    empty_directories: list[str] | None = None
    error: str | None = None

    def checks(self) -> Iterator[Problem]:
        named = {"prebuilt": ("ref",), "shared": ("key", "base", "deferred"), "per_task": ("key", "base", "deferred")}
        wanted = named.get(self.kind, ())
        for key in ("ref", "key", "base", "deferred"):
            if (getattr(self, key) is not None) != (key in wanted):
                yield Problem(f"{'is required' if key in wanted else 'is of another kind'} (kind is {self.kind})", key=key)


class Reference(ConfigModel):
    file: str
    line: Annotated[int, Field(gt=0)]
    service: str
    port: Annotated[int, Field(gt=0, lt=65536)]


class Compose(ConfigModel):
    plan: Digest
    unrewritable_references: list[Reference]


class Origin(ConfigModel):
    repo: str
    commit: str


class Row(ConfigModel):
    name: Annotated[str, AfterValidator(_is_id)]
    digest: Digest
    path: str
    source_path: Annotated[str, AfterValidator(_is_path)]
    origin: Origin | None = None
    upstream_digest: Digest | None = None
    index: dict[str, Any]
    flags: Flags
    image: Image
    verifier_image: Image | None = None
    compose: Compose | None = None
    overlays: list[str] | None = None
    refused: Annotated[str, AfterValidator(_is_refusal)] | None
    input_files: dict[str, Digest] | None = None

    def checks(self) -> Iterator[Problem]:
        place = f"tasks/{self.digest.removeprefix('sha256:')}"
        if self.path != place:
            yield Problem(f"must be {place}, got {show(self.path)}", key="path")

    def incomplete(self) -> Iterator[Problem]:
        """What a task that can run has, since release 0.5."""
        if self.refused is None:
            for key in sorted(ALWAYS_FLAGGED - self.flags.model_fields_set):
                yield Problem("is required", key=f"flags.{key}")
            if (self.compose is not None) != (self.flags.stack in PLANNED):
                yield Problem(
                    f"{'is required' if self.compose is None else 'must be absent'}, the stack is {self.flags.stack}", key="compose"
                )


class Repository(ConfigModel):
    repo: str
    ref: str | None
    commit: str


class ResolvedSource(ConfigModel):
    """Of all kinds of sources."""

    kind: Literal["directory", "hf", "git", "hub", "registry", "adapter"]
    repo: str | None = None
    ref: str | None = None
    commit: str | None = None
    path: str | None = None
    revision: str | int | None = None
    package: str | None = None
    type: str | None = None
    digest: Digest | None = None
    registry: str | None = None
    name: str | None = None
    version: str | None = None
    repositories: list[Repository] | None = None
    command: list[str] | None = None
    args: list[str] | None = None
    env_names: list[str] | None = None
    sparse: list[str] | None = None


class Selection(ConfigModel):
    """tasks: files of ids, as they were written, to the SHA-256 of their bytes."""

    tasks: dict[str, Hex]
    select: dict[str, Scalar | list[Scalar]]
    selected: NonNegativeInt
    of: NonNegativeInt

    def checks(self) -> Iterator[Problem]:
        if self.of < self.selected:
            yield Problem(f"must be at least the selected {self.selected}, got {self.of}", key="of")


class Head(ConfigModel):
    """All but the rows, of which the number alone counts. Release 0.4 wrote created_at, and no compose_rule, source and plans."""

    version: int
    dataset: str
    resolved: str
    source: ResolvedSource = ResolvedSource(kind="directory")
    fetched_with: str
    hash_rule: str
    build_key_rule: str
    compose_rule: str | None = None
    overlay: Digest | None
    inputs: Hex
    selection: Selection
    modes: str
    created_at: str = ""
    plans: dict[Digest, dict[str, Any]] = Field(default_factory=dict)
    tasks: list[Any]

    def checks(self) -> Iterator[Problem]:
        if self.selection.selected != len(self.tasks):
            yield Problem(f"must be {len(self.tasks)}, the number of rows, got {self.selection.selected}", key="selection.selected")
        given = self.model_fields_set
        together = ("compose_rule", "source", "plans")
        if self.compose_rule is not None or self.plans or "source" in given:
            yield from (Problem("is required", key=key) for key in together if key not in given)
            if "created_at" in given:
                yield Problem("unknown key", key="created_at")


def check_lock(value: Mapping[str, Any], shown_as: str) -> None:
    """Raises ConfigError with what is wrong with the head of a lock, or with its first plan or row that is not as written."""
    _check(Head, value, shown_as)
    plans = value.get("plans", {})
    for digest, plan in plans.items():
        if canonical_digest(plan) != digest:
            raise _refused([Problem("the plan is not what its digest says", key=f"plans.{digest}")], shown_as)
    names: set[str] = set()
    for number, item in enumerate(value["tasks"]):
        name = item.get("name") if isinstance(item, dict) else None
        place = f"task {short_path(name)}: " if isinstance(name, str) else f"tasks.{number}."
        row = _check(Row, item, shown_as, place)
        found = [] if "compose_rule" not in value else list(row.incomplete())
        if row.compose is not None and row.compose.plan not in plans:
            found.append(Problem(f"the lock has no such plan, got {row.compose.plan}", key="compose.plan"))
        if row.name in names:
            found.append(Problem("two rows have it", key="name"))
        if found:
            raise _refused(found, shown_as, place)
        names.add(row.name)


def _check(model: type[Model], value: Any, shown_as: str, place: str = "") -> Model:
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise _refused(from_validation_error(error, model, value, lambda path: ""), shown_as, place) from None


def _refused(found: Iterable[Problem], shown_as: str, place: str = "") -> ConfigError:
    return ConfigError([Problem(item.rule, key=f"{place}{item.key}".rstrip(": ."), file=shown_as, advice=ADVICE) for item in found])
