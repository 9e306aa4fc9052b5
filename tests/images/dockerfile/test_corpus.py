"""Each Dockerfile of the corpus gives the plan or the refusal that the file beside it says.

refused: what the error begins with. has: fields of the plan. files: of the context (None where there are none). prefix, context,
directives, ignore, rule: what the build key is over, recomputed here. key: the key itself. args, target, whole: how it is planned.
rows, cases: what it proves.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from platoon.images.dockerfile import DockerfileError, ImagePlan, plan_image

pytestmark = pytest.mark.unit

CORPUS = Path(__file__).with_name("corpus")
TOPICS = sorted(path.name for path in CORPUS.iterdir())
USER_CASES = frozenset({"U19", "U21", "U24", "U25"})


@pytest.mark.parametrize("topic", TOPICS)
def test_corpus(topic: str, tmp_path: Path) -> None:
    """Every case of a topic; what fails is named."""
    wrong: dict[str, str] = {}
    for path in sorted((CORPUS / topic).glob("*.Dockerfile")):
        header, text = read(path)
        context = tmp_path / path.stem
        write(context, header, text)
        try:
            plan = planned(context, header, text)
        except DockerfileError as error:
            if not header.get("refused") or not error.sentence.startswith(header["refused"]):
                wrong[path.stem] = error.sentence
            continue
        if problem := "not refused" if header.get("refused") else judge(plan, context, header):
            wrong[path.stem] = problem
    assert not wrong, "\n".join(f"{name}: {problem}" for name, problem in wrong.items())


def test_the_corpus_is_whole() -> None:
    headers = [read(path)[0] for path in CORPUS.glob("*/*.Dockerfile")]
    assert len(headers) >= 60
    assert {name for header in headers for name in header.get("cases", ())} == USER_CASES


def test_i508_files_that_build_different_images_have_different_keys(tmp_path: Path) -> None:
    """The lines of two here-documents, cut between them at every place."""
    lines = ["1", "2", "3"]
    bodies = [("".join(f"{line}\n" for line in part) for part in (lines[:cut], lines[cut:])) for cut in range(4)]
    texts = [f"FROM alpine\nCOPY <<A <<B /x/\n{first}A\n{second}B\n" for first, second in bodies]
    assert len({plan_image(tmp_path, text).key for text in texts}) == len(texts)


def test_i511_the_page_says_to_fetch_again_with_an_earlier_release(checkout: Path) -> None:
    """And which plans those are; that a lock of another rule is not read is shown in the lock's own tests (H509)."""
    page = " ".join((checkout / "docs/reference/build-plan.md").read_text(encoding="utf-8").split())
    (sentence,) = re.findall(r"Platoon before 0\.5 does not read a plan with ([^:]*): fetch such a dataset again", page)
    assert "`--chown`" in sentence and "`USER`" in sentence


def read(path: Path) -> tuple[dict[str, Any], str]:
    header = YAML(typ="safe", pure=True).load(io.StringIO(path.with_suffix(".yaml").read_text(encoding="utf-8"))) or {}
    text = path.read_text(encoding="utf-8")
    return header, text.replace("\n", "\r\n") if header.get("crlf") else text


def write(context: Path, header: dict[str, Any], text: str) -> None:
    for name, content in {"Dockerfile": text, **(header.get("files") or {})}.items():
        target = context / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode("latin-1"))
        target.chmod(0o755 if name.endswith(".sh") else 0o644)


def planned(context: Path, header: dict[str, Any], text: str) -> ImagePlan:
    how = {key: header[key] for key in ("args", "target", "whole") if key in header}
    return plan_image(context, text, **how)


def judge(plan: ImagePlan, context: Path, header: dict[str, Any]) -> str:
    """What is wrong, empty when nothing is."""
    shown = {**json.loads(json.dumps(plan.__dict__)), **plan.to_dict()}
    for name, value in (header.get("has") or {}).items():
        if shown.get(name) != value:
            return f"{name} is {shown.get(name)}"
    if plan.key != header.get("key", plan.key):
        return f"key {plan.key}"
    if "prefix" in header or "context" in header:
        return key_problem(plan, context, header)
    return "" if header.get("has") else "says nothing of the plan"


def key_problem(plan: ImagePlan, context: Path, header: dict[str, Any]) -> str:
    """Compares the key with one made here of what the case says it is over."""
    files = header.get("context", plan.inputs if "prefix" in header and not header.get("files") else [])
    entries = [[file, hashlib.sha256((context / file).read_bytes()).hexdigest(), file.endswith(".sh")] for file in files]
    lines = [line for line in (context / "Dockerfile").read_text().splitlines() if line and not line.startswith("#")]
    payload = {
        "rule": header.get("rule", "platoon-buildkey-v1"),
        "directives": header.get("directives", []),
        "prefix": header.get("prefix", lines[: len(lines) - deferred_lines(plan)]),
        "context": entries,
        "dockerignore": hashlib.sha256((context / header["ignore"]).read_bytes()).hexdigest() if "ignore" in header else None,
        **{key: header[key] for key in ("args", "target") if key in header},
    }
    text = json.dumps(payload, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return "" if plan.key == f"sha256:{hashlib.sha256(text.encode()).hexdigest()}" else f"its key is not over {text}"


def deferred_lines(plan: ImagePlan) -> int:
    return len([step for step in plan.deferred if step[0] != "ARG"])
