"""Files made to hurt: refused with file and key, in bounded time and memory, and nothing outside the task is read."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from platoon.envs.harbor.compose import ComposeRefused, plan_task, references, stack_kind
from platoon.envs.harbor.compose.document import DEPTH_LIMIT, SIZE_LIMIT_BYTES, Tree, parse_document
from platoon.envs.harbor.compose.errors import ComposeError
from platoon.envs.harbor.compose.stack import NAME_LIMIT
from platoon.envs.harbor.format import TaskRefused
from platoon.envs.harbor.task_toml import TaskToml

pytestmark = pytest.mark.unit

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def make(compose: str | bytes, **files: str) -> Path:
        task = tmp_path / "task"
        (task / "environment").mkdir(parents=True)
        (task / "tests").mkdir()
        data = compose if isinstance(compose, bytes) else compose.encode()
        (task / "environment/docker-compose.yaml").write_bytes(data)
        for name, content in files.items():
            (task / "environment" / name).write_text(content)
        return task

    return make


def refusal(task: Path) -> str:
    with pytest.raises(TaskRefused) as error:
        plan_task(TaskToml(), task)
    text = error.value.refusal
    assert text.isprintable()
    assert str(task) not in text
    return text


def bomb(levels: int, wide: int = 10) -> str:
    lines = ['x0: &a0 "xxxxxxxxxx"']
    lines += [f"x{n}: &a{n} [{', '.join([f'*a{n - 1}'] * wide)}]" for n in range(1, levels)]
    return "\n".join([*lines, "services: {main: {working_dir: /x}}"])


def merge_bomb(levels: int) -> str:
    lines = ["x-0: &a0 {k0: v}"]
    lines += [f"x-{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}, *a{n - 1}], k{n}: v}}" for n in range(1, levels)]
    return "\n".join([*lines, "services: {main: {working_dir: /x}}"])


@pytest.mark.parametrize(
    "text", [bomb(12), bomb(3, 2000), merge_bomb(400), 'x: &a "' + "y" * 200_000 + '"\nz: [' + "*a, " * 500 + "]"]
)
def test_what_expands_is_refused_before_it_does(write: Write, text: str) -> None:
    assert "once its aliases are expanded" in refusal(write(text))


@pytest.mark.parametrize(
    ("compose", "files"),
    [
        ("services: {main: {labels: [" + ", ".join(f'"l{n}=${{A}}{n}"' for n in range(5000)) + "]}}", {}),
        ("services: {main: {env_file: e}}", {"e": "".join(f"B{n}=${{A}}{n}\n" for n in range(5000))}),
        ("services: {main: {env_file: e}}", {"e": "A0=xxxxxxxxxx\n" + "".join(f"A{n + 1}=$A{n}$A{n}\n" for n in range(60))}),
    ],
    ids=["labels", "env_file", "doubling"],
)
def test_variables_do_not_make_a_small_file_large(write: Write, compose: str, files: dict[str, str]) -> None:
    task = write(compose, **files)
    with pytest.raises(ComposeRefused, match=r"longer than [0-9]+ characters"):
        plan_task(TaskToml.model_validate({"environment": {"env": {"A": "x" * 500_000}}}), task)


def test_a_deep_file(write: Write) -> None:
    deep = DEPTH_LIMIT + 1
    assert f"nested deeper than {DEPTH_LIMIT} levels" in refusal(write("x: " + "[" * deep + "]" * deep))


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "{a: " * 50_000, "- " * 100_000, "? " * 50_000, "&a " * 50_000, "!" * 100_000, "'" * 100_001]
)
def test_text_of_one_kind_is_refused(write: Write, text: str) -> None:
    assert refusal(write(text)).startswith("compose: environment/docker-compose.yaml")


def test_a_large_file(write: Write) -> None:
    assert f"has more than {SIZE_LIMIT_BYTES} bytes" in refusal(write("#" * (SIZE_LIMIT_BYTES + 1)))


def test_bytes_that_are_no_text(write: Write) -> None:
    assert refusal(write(b"services: \xff\xfe")) == "compose: environment/docker-compose.yaml: is not UTF-8 (byte 10)"


NONE_OF_YAML = [("\0", "0000"), ("\x07", "0007"), ("\x7f", "007F"), ("\ufffe", "FFFE")]


@pytest.mark.parametrize(("character", "code"), NONE_OF_YAML)
@pytest.mark.parametrize(
    "place", ["services: {{main: {{}}}}\n{}", "services:\r\n  'ma{}in': {{}}", "x-a: |\n  a{}\n", "\ufeff#\n#{}"]
)
def test_characters_that_yaml_has_not(write: Write, character: str, code: str, place: str) -> None:
    why = f"is not YAML: the character U+{code} is none of YAML"
    assert refusal(write(place.format(character))) == f"compose: environment/docker-compose.yaml:2: {why}"


@pytest.mark.parametrize(
    "text", ["%YAML 1.3\n---\na: b", 'a: "\\U00110000"', 'a: "\\UFFFFFFFF"', 'a: "\\ud800"', '"\\ud83d\\ude00": a', 'a: "\\0"']
)
def test_versions_and_escapes_that_cannot_be(write: Write, text: str) -> None:
    assert refusal(write(text)).startswith("compose: environment/docker-compose.yaml")


@pytest.mark.parametrize("name", ["a\\nb", "a\\tb", "../x", "a/b", "", "a b", "\\u202eb"])
def test_names_that_break_lines_or_paths(write: Write, name: str) -> None:
    text = refusal(write(f'services: {{main: {{}}, "{name}": {{image: x}}}}'))
    assert "a name is letters, digits" in text


def test_many_services(write: Write) -> None:
    services = ", ".join(f"s{number}: {{image: x}}" for number in range(100))
    assert "has more than 64 services" in refusal(write(f"services: {{main: {{}}, {services}}}"))


def test_a_file_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "environment").mkdir()
    os.mkfifo(tmp_path / "environment/docker-compose.yaml")
    assert stack_kind(tmp_path) == "single"
    (tmp_path / "environment/docker-compose.yaml").unlink()
    (tmp_path / "environment/docker-compose.yaml").mkdir()
    assert stack_kind(tmp_path) == "single"


LINKED = [
    ("env_file: LINK", "main.env_file"),
    ("env_file: [{path: LINK, required: false}]", "main.env_file"),
    ('volumes: ["./LINK:/x"]', "main.volumes"),
    ('volumes: ["${CONTEXT_DIR}/LINK:/x:ro"]', "main.volumes"),
    ("volumes: [{type: bind, source: LINK, target: /x}]", "main.volumes"),
    ("build: LINK", "main.build.context"),
    ("build: {dockerfile: LINK}", "main.build.dockerfile"),
    ("configs: [c]", "main.configs"),
    ("secrets: [c]", "main.secrets"),
]


@pytest.mark.parametrize(("key", "place"), LINKED)
@pytest.mark.parametrize("target", ["file", "directory"])
def test_links_out_of_the_task_are_not_followed(write: Write, tmp_path: Path, key: str, place: str, target: str) -> None:
    (tmp_path / "file").write_text("SECRET=1\n")
    (tmp_path / "directory").mkdir()
    tables = "configs: {c: {file: LINK}}\nsecrets: {c: {file: LINK}}\n"
    task = write(f"services:\n  main:\n    {key}\n{tables}".replace("LINK", "link"))
    (task / "environment/link").symlink_to(tmp_path / target)
    assert refusal(task).startswith(f"compose: {place}: environment/link is a link out of the task")


@pytest.mark.parametrize(("key", "place"), LINKED)
@pytest.mark.parametrize("path", ["../../file", "a/../../../file"])
def test_paths_out_of_the_task_are_refused(write: Write, tmp_path: Path, key: str, place: str, path: str) -> None:
    (tmp_path / "file").write_text("SECRET=1\n")
    tables = f"configs: {{c: {{file: {path}}}}}\nsecrets: {{c: {{file: {path}}}}}\n"
    task = write(f"services:\n  main:\n    {key}\n{tables}".replace("LINK", path), Dockerfile="FROM x\n")
    text = refusal(task)
    assert text.startswith(f"compose: {place}: ")
    assert "SECRET" not in text


@pytest.mark.parametrize("path", ["/etc/passwd", "/", "~/.ssh/id_rsa", "~root"])
@pytest.mark.parametrize(("key", "place"), LINKED)
def test_paths_of_the_host_are_refused(write: Write, key: str, place: str, path: str) -> None:
    tables = f"configs: {{c: {{file: {path}}}}}\nsecrets: {{c: {{file: {path}}}}}\n"
    text = key.replace("./LINK", path).replace("${CONTEXT_DIR}/LINK", path).replace("LINK", path)
    assert refusal(write(f"services:\n  main:\n    {text}\n{tables}", Dockerfile="FROM x\n")).startswith(f"compose: {place}: ")


def test_a_link_to_a_directory_of_the_task(write: Write) -> None:
    task = write('services: {main: {volumes: ["./link/f:/x:ro", "./link:/y:ro"]}}')
    (task / "environment/real").mkdir()
    (task / "environment/real/f").write_text("x")
    (task / "environment/link").symlink_to("real")
    with pytest.raises(ComposeRefused) as error:
        plan_task(TaskToml(), task)
    assert "environment/link is reached through a link to a directory" in "; ".join(error.value.problems)


def test_every_problem_is_told(write: Write) -> None:
    with pytest.raises(ComposeRefused) as error:
        plan_task(TaskToml(), write("services: {main: {pid: host, bogus: 1}, db: {privileged: true, ports: [a], image: 'a b'}}"))
    places = [problem.partition(": ")[0] for problem in error.value.problems]
    assert places == ["main.pid", "main.bogus", "db.ports", "db.privileged", "db.image"]
    assert error.value.refusal == f"compose: {error.value.problems[0]}"


def test_a_long_value_does_not_make_a_long_refusal(write: Write) -> None:
    assert len(refusal(write(f"services: {{main: {{network_mode: {'x' * 100_000}}}}}"))) < 400


def test_a_long_key_does_not_make_a_long_refusal(write: Write) -> None:
    assert len(refusal(write(f"services: {{main: {{? {'y' * 100_000} : 1}}}}"))) < 400


def test_a_file_whose_text_costs_most_to_scan_ends(write: Write) -> None:
    """References are looked for once, over bounded text."""
    text = "db:1 " * 20_000
    task = write(f"services:\n  main: {{environment: {{A: '{text}'}}}}\n  db: {{image: x, expose: [1]}}\n", notes="db:1\n" * 5000)
    planned = plan_task(TaskToml(), task)
    assert len(planned.unrewritable) == 1000
    assert planned.warnings == ("only the first 1000 places that name services are kept",)


def test_what_is_not_searched_for_names_of_services_is_told(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(references, "FILE_LIMIT_BYTES", 10)
    compose = "services:\n  main: {}\n  db: {image: x, expose: [1]}\n"
    task = write(compose, small="0123456789", large="db:1 5678 db:1", binary="\0" * 100)
    planned = plan_task(TaskToml(), task)
    assert [item.line for item in planned.unrewritable] == [1]
    assert planned.warnings == ("environment/large: only its first 10 bytes are searched for names of services",)
    monkeypatch.setattr(references, "SCAN_LIMIT_BYTES", 12)
    assert plan_task(TaskToml(), task).warnings[-1] == "only the first 12 bytes of its files are searched for names of services"


def test_names_of_services_cost_no_more_when_they_are_many() -> None:
    """One expression for any name, which is then looked up: none is made of the names."""
    names = references.Names({f"b{number}": ("b", frozenset({80})) for number in range(50_000)})
    text = "b1:80 xb1:80 b1:800 -b1:80 b.b1:80 b49999:80\nb1:80x b1:080"
    assert [match.span() for match, _ in names.matches(text)] == [(0, 5), (35, 44), (45, 50), (52, 58)]
    assert not list(references.Names({"b": ("b", frozenset())}).matches("b:80"))


def test_many_names_of_one_service(write: Write) -> None:
    text = "services: {{main: {{}}, b: {{image: x, ports: [80], networks: {{default: {{aliases: [{}]}}}}}}}}"
    assert refusal(write(text.format(", ".join(f"b{n}" for n in range(NAME_LIMIT + 1))))) == (
        f"compose: b.networks.default.aliases: has more than {NAME_LIMIT} names"
    )


def test_files_of_variables_are_bounded_in_all(write: Write) -> None:
    task = write(f"services: {{main: {{env_file: [{', '.join(['e'] * 20)}]}}}}", e="#" * 100_000)
    assert "files of variables have more than 1048576 characters in all" in refusal(task)


@pytest.mark.parametrize(("data", "tree"), [(b"", {}), (b"\n\n", {}), (b"# nothing\n", {}), (b"---\n", None), (b"~\n", None)])
def test_nothing(data: bytes, tree: Tree) -> None:
    """A file without a document sets nothing; a document that is null is none of compose's."""
    assert parse_document(data, "f") == tree


def test_errors_have_the_line() -> None:
    with pytest.raises(ComposeError, match="f:3: the key 'a' is given twice"):
        parse_document(b"a: 1\nb: 2\na: 3\n", "f")
