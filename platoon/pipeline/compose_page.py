"""The reference page of compose files: prose around the one table of the subset, which the planner reads too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from platoon.envs.harbor.compose import RULE
from platoon.envs.harbor.compose.health import CONDITIONS
from platoon.envs.harbor.compose.interpolate import FILES_LIMIT
from platoon.envs.harbor.compose.ports import RANGE_LIMIT
from platoon.envs.harbor.compose.security import ROOTLESS
from platoon.envs.harbor.compose.stack import NAME_LIMIT
from platoon.envs.harbor.compose.subset import SUBSET, Rule
from platoon.envs.harbor.compose.variables import LOG_DIRECTORIES
from platoon.images.image_reference import PLATFORM

PAGE = "docs/reference/compose.md"

# What a name means in interpolation; the log directories follow.
VARIABLES: Mapping[str, str] = {
    "CONTEXT_DIR": "the task's `environment/`",
    "MAIN_IMAGE_NAME": "the image that is built for `main`; no other service may run it",
    "PREBUILT_IMAGE_NAME": "`docker_image` of task.toml; not set where `main` is built",
    "CPUS": "`cpus` of task.toml; not set where it has none",
    "MEMORY": "`memory_mb` of task.toml as `<n>M`; not set where it has none",
}
GROUPS: tuple[tuple[str, str], ...] = (
    ("The file", ""),
    ("Services", "services.*"),
    ("`build`", "services.*.build"),
    ("`env_file`, the long form", "services.*.env_file[]"),
    ("`healthcheck`", "services.*.healthcheck"),
    ("`depends_on`", "services.*.depends_on.*"),
    ("`ports`, the long form", "services.*.ports[]"),
    ("`volumes`, the long form", "services.*.volumes[]"),
    ("`networks` of a service", "services.*.networks.*"),
    ("`deploy`", "services.*.deploy"),
    ("`gpus`", "services.*.gpus[]"),
    ("`ulimits`", "services.*.ulimits.*"),
    ("`configs` of a service", "services.*.configs[]"),
    ("`secrets` of a service", "services.*.secrets[]"),
    ("Top-level `networks`", "networks.*"),
    ("Top-level `volumes`", "volumes.*"),
    ("Top-level `configs`", "configs.*"),
    ("Top-level `secrets`", "secrets.*"),
)

INTRODUCTION = f"""# Compose files

This page is generated from the table that plans compose files (`make docs`). Its rule is `{RULE}`.

A task's `environment/docker-compose.yaml` is planned when the task is fetched, and its plan is what runs: nothing reads the file
later. Only this name is read, as Harbor does; a fetch warns of `docker-compose.yml`, `compose.yaml` and `compose.yml`. `platoon
harbor plan TASK_DIR` shows the plan, or every reason why there is none.

| kind | the file |
| --- | --- |
| `single` | is not there |
| `trivial` | sets nothing: it is empty, or names `main` alone and gives it no settings |
| `main_only` | gives settings to `main` alone: one sandbox, on every provider |
| `sidecars` | names other services: a stack |

Harbor lays the file over its own, which has `main`: a file need not name it. Limits of task.toml and a command that keeps `main`
alive stand below the file, `[environment].env` and the log directories above. So `cpus`, `mem_limit` and `command` of the file
win, and its `environment` loses to task.toml's. Only a `command` or `entrypoint` of the file makes a process of `main`; an
`entrypoint` alone keeps Harbor's command as its arguments.

## YAML

YAML 1.2 with anchors and merge keys (`<<`). Refused: repeated keys, keys that are no text, tags but `!!map`, `!!seq`, `!!str`,
`!!int`, `!!float`, `!!bool` and `!!null` on what they fit (compose passes over the others), dates, several documents, a directive
of another YAML than 1.1 (as compose has it), and files that expand beyond bounds. A plain number keeps its text where compose
would keep it; `017` and `1e3`, which compose would write as 15 and 1000, are to be quoted.

## Variables

`$NAME`, `${{NAME}}`, `${{NAME:-word}}`, `${{NAME-word}}`, `${{NAME:?message}}`, `${{NAME?message}}`, `${{NAME:+word}}`,
`${{NAME+word}}`; words may hold variables. `$$` is a dollar, and is undone once. A `$` that ends a text is refused. An unset name
without a default is refused, but in `environment`, labels and build arguments, where it stands for nothing, as in compose.

A name is looked up among Harbor's, then in task.toml's `[environment].env`, then among the host variables that an overlay lists. A
host's other variables count as unset. What only a session knows stays open in the plan, which holds no host value and no host path.
A variable that compose would take from `environment/.env` is refused.
"""

AFTER_VARIABLES = """
## Files of variables

`env_file` is read when the task is fetched, below `environment`. A line is `NAME=value`, `export NAME=value`, `NAME: value`, or a
bare `NAME` that takes the variable of that name.

- Unquoted values end at the line, or at blanks before `#`; blanks within stay.
- Values in double quotes may span lines; `\\n \\r \\t \\a \\b \\f \\v \\\\ \\" \\$` are escapes.
- Values in single quotes may span lines; only `\\'` is an escape.
- After a closing quote only a comment may follow.
- Variables are replaced in unquoted and double-quoted values.
- `format: raw` takes each line as it stands.

## Mounts

| source | read-only | writable |
| --- | --- | --- |
| a path in the task | from the cache | one copy a stack |
| a log directory, or a path below it | the stack's own | the stack's own; `main` never sees the verifier's before it is graded |
| `${NAME}` of `compose_host_env` | the path it names | refused |
| any other path of the host | refused | refused |

A source that is missing is refused, and so are mounts over `/`, `/proc`, `/sys` and `/dev`, and binds over `/tests` and `/logs`.
"""

KEYS = """
## Keys

`run` is planned with compose's meaning, `judged` is planned or refused by its value, `noted` and `ignored` have no effect,
`refused` refuses the task unless the value is empty. A key that stands in no table is refused, but below an `ignored` one and where
it begins with `x-`. `[]` is an item of a list. The text of a refusal is `compose: <service>.<key>: <why>`. What the tables
say of the file's `networks`, `volumes`, `configs` and `secrets` counts for entries that a service which runs names; the form of
values counts everywhere.
"""

AFTER_KEYS = """
## Overlays

An overlay's `overlay.toml` edits the file before it is interpolated, and lists host variables it may name:

```toml
compose_host_env = ["API_KEY"]

[[compose]]
service = "judge"
set = { environment = { MODE = "fast" } }  # laid over, as compose lays files over each other
replace = { command = ["serve"] }          # the whole value
unset = ["privileged", "environment.DEBUG"]
host_network = { listen = ["PORT"], token = ["JUDGE_TOKEN"], bind = ["HOST"] }

[[compose]]
service = "grader"
external = "grader"                        # a node service of this name serves it; no rollout starts it
scope = { problem = "${PROBLEM_ID}" }      # of task.toml's environment, or of what the file gives main
```

`unset` and `replace` of a key that is not there, and any entry for a service that is not there, refuse the task as `overlay`.
`listen` names variables for the service's TCP ports in the file's order, or is a table of variables to ports. A rule's variable
must not be interpolated where the rule sets it: `$$PORT` hands it on.

## Plans

A plan is canonical JSON: `rule`, `order`, `main`, `services`, `volumes`, `externals`, `privileges`, `host_env`, `host_network`,
`notes`. Times are seconds, sizes MiB, and null is what the image decides. A text is a string, or a list of strings and parts:

| part | stands for |
| --- | --- |
| `{"host": NAME}` | a host variable; `unset`, `empty`, `set` stand in its place; under `nonempty` an empty one is unset |
| `{"ref": [service, port]}` | a service at a port it declares |
| `{"self": port}` | a port of the service itself |
| `{"context": path}` | the task's `environment/` |
| `{"logs": name}` | a log directory |
| `{"image": "main"}` | the name of `main`'s image |

`service:port` becomes a part where the service declares the port and the name is not part of a longer one; `localhost:port` does
in the texts of the service that declares it. What nothing replaces (in the instruction, files of `environment/` and `tests/`,
inline configs, build arguments, scopes) stands in the row's `unrewritable_references`. Files of variables count where an image or
a mount takes them too.
"""


FORM = """
What compose's own schema refuses is refused too: a null but under `command`, `entrypoint`, `deploy`, and for names that may stand
alone (`environment`, `labels`, `networks`, `volumes`); one item twice in `depends_on`, `networks` or `security_opt`; `version` and
`name` that are no text; `network_mode` beside `networks`; values of another form than compose takes (a switch, text, a list, a
number, a size, a duration), in `ignored` keys, unused entries and services that a profile leaves out too. Beyond it, a name that a
service takes must not be another service's.
"""


def compose_page() -> str:
    """The page's text."""
    parts = [INTRODUCTION, _table(("name", "value"), _variable_rows()), AFTER_VARIABLES, KEYS]
    for heading, prefix in GROUPS:
        parts.append(f"### {heading}\n\n{_table(('key', '`main`', 'sidecars', ''), _rows(prefix))}")
    conditions = ", ".join(f"`{condition}`" for condition in CONDITIONS)
    capabilities = ", ".join(f"`{name}`" for name in sorted(ROOTLESS))
    limits = f"Conditions of `depends_on` are {conditions}. A range has at most {RANGE_LIMIT} ports. Services run `{PLATFORM}`."
    limits += f"\nA service has at most {NAME_LIMIT} names; files of variables have at most {FILES_LIMIT} characters in all."
    parts += [f"{limits}\nCapabilities that are no privilege: {capabilities}.", FORM, AFTER_KEYS]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _variable_rows() -> Iterator[tuple[str, ...]]:
    for name, meaning in VARIABLES.items():
        yield f"`{name}`", meaning
    for kind, path in LOG_DIRECTORIES.items():
        key = {"verifier": "VERIFIER_LOGS", "agent": "AGENT_LOGS", "artifacts": "ARTIFACTS"}[kind]
        yield f"`HOST_{key}_PATH`", f"the stack's own directory for what stands at `{path}`"
        yield f"`ENV_{key}_PATH`", f"`{path}`"


def _rows(prefix: str) -> Iterator[tuple[str, ...]]:
    for rule in SUBSET.values():
        rest = rule.key.removeprefix(f"{prefix}.") if prefix else rule.key
        if (rest != rule.key or not prefix) and _belongs(rule, prefix):
            yield f"`{rest}`", rule.main, rule.sidecar, rule.meaning.replace("|", "\\|")


def _belongs(rule: Rule, prefix: str) -> bool:
    """Whether no longer prefix of a group takes the row."""
    takers = [other for _, other in GROUPS if not other or rule.key.startswith(f"{other}.")]
    return max(takers, key=len) == prefix


def _table(heads: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    lines = [f"| {' | '.join(heads)} |", f"|{' --- |' * len(heads)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])
