"""`service_kwargs` of a Harbor entry: the keys, what they default to, and which of them belong together.

Paths are kept as written; whoever reads them joins them to the folder of the configuration file. A key of a source or feature that
is not served is refused with what is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, field_validator, model_validator

from platoon.config.addresses import WEB_SCHEMES, check_address, check_without_credentials, is_address
from platoon.config.model import ConfigModel, Options, PositiveFloat, problems_error
from platoon.config.problems import from_validation_error
from platoon.envs.harbor.rewards import DEFAULT_PRIMARY, RewardContract, parse_contract
from platoon.envs.harbor.sources.adapter_options import AdapterOptions
from platoon.envs.harbor.sources.reference import RegistryReference, parse_reference
from platoon.errors import ConfigError, Problem

DATASET_ADVICE = "name a directory, hf://, harbor:// or git+<url>, or give an adapter"
UserPolicy = Literal["refuse", "ignore", "honor"]
Scalar = str | int | float | bool

# Keys that mean something elsewhere in the product's documents, with what serves their purpose here.
_UNSERVED: Mapping[str, str] = {
    "node_services": "sandboxes of one container are served",
    "on_sidecar_down": "sandboxes of one container are served",
    "verifier_classifiers": "graders report through the reward file",
}
_REMOVED: Mapping[str, str] = {
    "cache": "set cache: in the site file",
    "image_map": "the image map is an input of the run",
    "toolchain_root": "set cache: in the site file",
}


class Refuse(ConfigModel):
    """`refuse:` which tasks a fetch refuses instead of locking them as runnable."""

    sidecars: bool = False
    """tasks of several containers"""
    gpus: bool = True
    """tasks that ask for GPUs"""
    agent_user: bool = True
    """tasks with an agent user of their own"""
    privileges: bool = True
    """containers that ask for privileges"""
    per_task_build: bool = False
    """tasks whose image no other task shares"""
    uploads_over_mb: Annotated[float, Field(gt=0)] | None = None
    """tasks that would upload more than so many MiB into each sandbox"""
    stack: Literal[True, "sidecars"] | None = None
    """earlier spelling of `sidecars: true`"""

    @property
    def effective_sidecars(self) -> bool:
        return self.sidecars or self.stack is not None

    @property
    def sets_sidecars(self) -> bool:
        """Whether the entry says anything of sidecars; release 0.4 refused them where it did not."""
        return "sidecars" in self.model_fields_set or self.stack is not None


class IndexFile(ConfigModel):
    """`index:` a file of fields by task id, relative to the dataset; `key` names the id in rows, `fields` picks some."""

    path: str
    """file of rows, relative to the dataset"""
    key: str = "task_id"
    """field that holds the task id"""
    fields: list[str] | None = None
    """fields that are taken; unset, all"""


class IndexMetadata(ConfigModel):
    """`index:` scalars of `[metadata]` in each `task.toml`."""

    metadata: list[str]
    """names below `[metadata]`"""


SELECTED_FIRST = "comes from [metadata], which is read of tasks once they are selected"
SELECT_ADVICE = "select by name, by a file of tasks, or by a field of an index file"

# Of the index.
FieldName = Annotated[str, Field(min_length=1)]


class HoldOut(ConfigModel):
    """`holdout:` which whole groups of tasks are kept for evaluation."""

    fraction: Annotated[float, Field(gt=0, lt=1)]
    """share of the tasks that is held out, between 0 and 1"""
    group_by: FieldName | Annotated[list[FieldName], Field(min_length=1)]
    """index field or fields whose equal values keep tasks together"""
    stratify_by: FieldName | None = None
    """index field whose values are held out in equal shares"""
    seed: int = 0
    """chooses the groups"""
    ignore_inputs: list[str] = Field(default_factory=list)
    """patterns of input files that tasks of different groups may share"""

    @property
    def group_fields(self) -> list[str]:
        return [self.group_by] if isinstance(self.group_by, str) else self.group_by


class ServiceMount(ConfigModel):
    """A host path bound into every sandbox of the entry."""

    source: str
    """path on the host"""
    target: str
    """path in the sandbox"""
    read_only: bool = True
    """whether the sandbox may not write there"""


class RewardOption(ConfigModel):
    """`reward:` written out: which numbers of a reward file count."""

    primary: str | list[str] = DEFAULT_PRIMARY
    """the reward that trains, or names of which exactly one is reported"""
    components: list[str] | None = None
    """the only names a reward file may hold"""
    range: list[float] | None = None
    """lowest and highest primary reward"""


class HarborOptions(ConfigModel):
    """All options of a Harbor entry. Exactly one of dataset, adapter, dataset_dir, task_dirs and lock alone says what is served."""

    dataset: str | None = None
    """dataset to lock: path, `hf://org/name@rev#path`, `harbor://org/name@ref`, `harbor://name@version` or `git+<url>@ref#path`"""
    adapter: AdapterOptions | None = None
    """a program that generates the dataset to lock"""
    registry: str | None = None
    """file or URL of the registry of `harbor://name@version`; Harbor's own when unset"""
    lock: str | None = None
    """the lock to read, and with a dataset or adapter to write; found by what is asked for when unset"""
    dataset_dir: str | None = None
    """a directory of tasks to serve as it is, without a lock"""
    task_dirs: list[str] | None = None
    """task directories to serve as they are, without a lock"""
    tasks: str | list[str] | None = None
    """allowlist file(s) of task ids, united"""
    select: dict[str, Scalar | list[Scalar]] = Field(default_factory=dict)
    """index fields and their allowed values; `name` takes globs"""
    refuse: Refuse = Refuse()
    """which tasks a fetch refuses"""
    overlays: list[str] = Field(default_factory=list)
    """directories of edits that a fetch applies to the tasks they match, in order"""
    index: list[str | IndexFile | IndexMetadata] = Field(default_factory=list)
    """more index fields: files, or scalars of the tasks' own metadata"""
    splits: str | None = None
    """file of split names and their task ids"""
    holdout: HoldOut | None = None
    """split by whole groups into train and eval"""
    provider: str | None = None
    """sandbox provider; the site file's when unset"""
    provider_options: Options = Field(default_factory=dict)
    """options of the provider, laid over the site's"""
    verifier_provider_options: Options | None = None
    """options laid over provider_options for separate verifiers"""
    default_image: str | None = None
    """image of tasks that name none"""
    workdir: str = "/app"
    """working directory when neither task nor image gives one"""
    env: dict[str, str] = Field(default_factory=dict)
    """environment variables of every sandbox"""
    mounts: list[ServiceMount] = Field(default_factory=list)
    """host paths bound into every sandbox"""
    tool_timeout_s: PositiveFloat = 300.0
    """limit of one tool call in seconds"""
    agent_timeout_multiplier: PositiveFloat = 1.0
    """factor on the tasks' agent time limits"""
    verifier_timeout_multiplier: PositiveFloat = 1.0
    """factor on the tasks' verifier time limits"""
    concurrent_tools: list[Literal["bash", "view", "write", "edit"]] = Field(default_factory=list)
    """tools that may run while another call runs"""
    queue_timeout_s: PositiveFloat | None = 240.0
    """longest wait for a turn in seconds; null waits without limit"""
    close_timeout_s: PositiveFloat = 30.0
    """how long the last close waits for calls in flight, in seconds"""
    sandbox_start_budget_s: PositiveFloat = 600.0
    """limit of one sandbox start in seconds"""
    max_artifact_bytes: Annotated[int, Field(gt=0)] = 1 << 30
    """limit of one artifact in bytes"""
    reward: str | list[str] | RewardOption = DEFAULT_PRIMARY
    """which reward trains: its name, names of which exactly one is reported, or both with components and range"""
    agent_user: UserPolicy = "refuse"
    """what happens to a task's own agent user"""
    verifier_user: UserPolicy | None = None
    """what happens to a task's own verifier user; agent_user's when unset"""
    network_policy: Literal["task", "none"] = "task"
    """`none` gives no phase a network"""
    stacks: Literal["auto", "refuse"] = "auto"
    """whether tasks of several containers run where the provider can"""
    name: str = "harbor"
    """label of the service"""

    @model_validator(mode="before")
    @classmethod
    def _explain_unserved(cls, value: Any) -> Any:
        if isinstance(value, dict):
            found = [Problem("is not served", key=key, advice=_UNSERVED[key]) for key in value if key in _UNSERVED]
            found += [Problem("was removed", key=key, advice=_REMOVED[key]) for key in value if key in _REMOVED]
            if found:
                raise problems_error(found)
        return value

    @field_validator("dataset_dir", "lock")
    @classmethod
    def _is_a_path(cls, value: str | None) -> str | None:
        if value is not None and (not value or any(character in value for character in "\0\n") or is_address(value)):
            raise ValueError("must be a path")
        return value

    @field_validator("tasks", "splits", "overlays", "task_dirs", "index")
    @classmethod
    def _are_paths(cls, value: Any) -> Any:
        items = value if isinstance(value, list) else [value]
        names = [item.path if isinstance(item, IndexFile) else item for item in items]
        keys = [str(number) if isinstance(value, list) else "" for number, name in enumerate(names) if name == ""]
        if keys:
            raise problems_error([Problem('must be a path, got ""', key=key) for key in keys])
        return value

    @field_validator("dataset")
    @classmethod
    def _is_a_reference(cls, value: str | None) -> str | None:
        if value is not None:
            try:
                parse_reference(value)
            except ValueError as error:
                # The value itself is not shown: it may hold a secret.
                raise problems_error([Problem(str(error), advice=DATASET_ADVICE)]) from None
        return value

    @field_validator("registry")
    @classmethod
    def _is_a_registry(cls, value: str | None) -> str | None:
        if value is None:
            return None
        try:
            check_without_credentials(value)
            if is_address(value) or any(character in value for character in "\0\n") or not value:
                check_address(value, WEB_SCHEMES)
        except ValueError as error:
            raise problems_error([Problem(str(error), advice="name a registry.json file or its URL")]) from None
        return value

    def checks(self) -> Iterator[Problem]:
        yield from self._source_checks()
        if self.splits is not None and self.holdout is not None:
            yield Problem("excludes splits", key="holdout")
        if self.holdout is not None and not self.is_locked:
            yield Problem("needs dataset, adapter or lock", key="holdout")
        if self.verifier_provider_options is not None and self.provider is None:
            yield Problem("needs a provider", key="verifier_provider_options")
        try:
            _ = self.reward_contract
        except ConfigError as error:
            yield from error.problems
        for key in self.select:
            if key.startswith("flags."):
                yield Problem("selects by index fields and name alone", key=f"select.{key}")
            elif key.removeprefix("index.") in {*self.metadata_fields} - {"name"} and not self.has_index_file:
                yield Problem(SELECTED_FIRST, key=f"select.{key}", advice=SELECT_ADVICE)

    def _source_checks(self) -> Iterator[Problem]:
        served = [key for key in ("dataset", "adapter", "dataset_dir", "task_dirs") if getattr(self, key) is not None]
        if not served and self.lock is None:
            yield Problem("is required: what the entry serves", key="dataset", advice=DATASET_ADVICE)
        elif len(served) > 1:
            yield Problem(f"excludes {served[0]}", key=served[1])
        if not self.is_fetched:
            for key in ("tasks", "select", "overlays", "index", "refuse"):
                if key in self.model_fields_set:
                    yield Problem("needs dataset or adapter", key=key)
            if self.lock is not None and served:
                yield Problem(f"excludes {served[0]}", key="lock")
        if self.registry is not None and not self._names_a_registry:
            yield Problem("needs a dataset harbor://name@version", key="registry")

    @property
    def is_fetched(self) -> bool:
        """Whether a fetch makes the lock of what is served."""
        return self.dataset is not None or self.adapter is not None

    @property
    def is_locked(self) -> bool:
        """Whether what is served has a lock: it is fetched, or read from the lock that is named."""
        return self.is_fetched or self.lock is not None

    @property
    def metadata_fields(self) -> list[str]:
        """Names of `[metadata]` scalars that become index fields."""
        return [name for item in self.index if isinstance(item, IndexMetadata) for name in item.metadata]

    @property
    def has_index_file(self) -> bool:
        return not all(isinstance(item, IndexMetadata) for item in self.index)

    @property
    def _names_a_registry(self) -> bool:
        try:
            return self.dataset is not None and isinstance(parse_reference(self.dataset), RegistryReference)
        except ValueError:
            return False

    @property
    def reward_contract(self) -> RewardContract:
        """Raises ConfigError for names or a range that are none; a valid model has neither."""
        return parse_contract(self.reward.plain() if isinstance(self.reward, RewardOption) else self.reward)

    @classmethod
    def parse(cls, value: Mapping[str, Any], *, key: str = "service_kwargs", file: str = "") -> Self:
        """The options of a free-form mapping. Raises ConfigError whose problems are below `key` of `file`."""
        import json

        try:
            return cls.model_validate_json(json.dumps(value))
        except ValidationError as error:
            problems = from_validation_error(error, cls, dict(value), lambda path: file)
            below = (Problem(item.rule, f"{key}.{item.key}" if item.key else key, item.file, item.advice) for item in problems)
            raise ConfigError(below) from None

    @property
    def task_files(self) -> list[str]:
        return [self.tasks] if isinstance(self.tasks, str) else list(self.tasks or [])
