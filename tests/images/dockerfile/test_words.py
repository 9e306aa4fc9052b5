"""Words of Dockerfiles: what a session expands later is what the build would have expanded; hostile text is refused in bounds."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from platoon.images.dockerfile import DockerfileError, plan_image
from platoon.images.dockerfile.parse import SIZE_LIMIT_BYTES, parse_dockerfile
from platoon.images.dockerfile.words import BACKSLASH, BadWordError, deferred_text, expand, expand_deferred

pytestmark = pytest.mark.unit

KNOWN = {"A": "1", "EMPTY": "", "LONG_name9": "x y"}
WORDS = st.lists(
    st.sampled_from(
        [
            "$A",
            "${A}",
            "$A'b'",
            "${EMPTY:-d}",
            "${NONE-$A}",
            "${A:+s}",
            "${LONG_name9%",
            "${LONG_name9// /",
            "* ",
            "$NONE",
            "$",
            "\\",
            "\\$",
            "'",
            '"',
            "a",
            " ",
            "$9",
            "}",
            "{",
        ]
    ),
    max_size=8,
).map("".join)

TABLE = [
    ("$A", "1"),
    ("${A}b", "1b"),
    ("${NONE:-${A}}", "1"),
    ("${EMPTY:-d}${EMPTY-d}", "d"),
    ("${A:+s}${NONE:+s}", "s"),
    (r"\$A", "$A"),
    (r"\\$A", r"\1"),
    (r"\\\$A", r"\$A"),
    (r"c:\x\y", r"c:\x\y"),
    ("$LONG_name9-", "x y-"),
    ("$-$", "$-$"),
]


@pytest.mark.parametrize(("value", "expected"), TABLE)
def test_deferred_values(value: str, expected: str) -> None:
    assert expand_deferred(value, KNOWN) == expected


@pytest.mark.parametrize("value", ["${A", "${}", "${A:=x}", "${A:-${B}"])
def test_deferred_values_that_are_none(value: str) -> None:
    with pytest.raises(BadWordError):
        expand_deferred(value, KNOWN)


@example("$\\a")
@example("$'a'")
@example('\\\\$"a"')
@given(WORDS)
def test_what_is_deferred_expands_as_in_the_build(word: str) -> None:
    def lookup(name: str) -> tuple[bool, str | None]:
        return name in KNOWN, KNOWN.get(name, "")

    try:
        built = expand(word, BACKSLASH, lookup)
        later = expand_deferred(deferred_text(word, BACKSLASH), KNOWN)
    except BadWordError:
        return
    assert later == built


@given(st.text(alphabet="FROMUNCPY alpine\n\\`#<>-='\"[]{}$:/.*\t\r", max_size=200))
def test_any_text_is_planned_or_refused(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    context = tmp_path_factory.getbasetemp() / "context"
    context.mkdir(exist_ok=True)
    try:
        plan_image(context, f"FROM a\n{text}")
    except DockerfileError as error:
        assert "\n" not in error.sentence


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("FROM a\nRUN x\0", "holds a NUL character"),
        ("#" * (SIZE_LIMIT_BYTES + 1), "has more than"),
        ("FROM a\n" + "RUN x\n" * 10_001, "has more than 10000 instructions"),
        (f"FROM a\nRUN {'x' * 65_532}\n", "Dockerfile:2: a line has more than 65535 bytes"),
        (f"FROM a\n# {'é' * 32_767}\n", "Dockerfile:2: a line has more than 65535 bytes"),
        ("FROM a\nENV =x\n", "ENV has name=value pairs"),
        ("FROM a\nENV A\n", "ENV A needs a value"),
        ('FROM a\nRUN x\nENV A="b\n', "an open quote"),
        ("FROM a\nHEALTHCHECK --interval=soon CMD x\n", "a duration is such as 30s"),
        (f"FROM a\nHEALTHCHECK --interval={'9' * 400}s CMD x\n", "Dockerfile:2: --interval: a duration is"),
        (f"FROM a\n\nHEALTHCHECK --timeout={'9' * 12}s CMD x\n", "Dockerfile:3: --timeout: a duration is at most"),
        ("FROM a\nHEALTHCHECK --retries=x CMD x\n", "Dockerfile:2: --retries is a whole number"),
        (f"FROM a\nHEALTHCHECK --retries={'9' * 5000} CMD x\n", "Dockerfile:2: --retries is a whole number"),
        (f"FROM a\nCOPY --from={'9' * 5000} /a /b\nRUN x\n", "Dockerfile:2: 9+… is the number of no stage"),
        ("FROM a\nCOPY <<'x /y\n", "Dockerfile:2: an open quote"),
        ('FROM a\nCOPY ["a\\u0000b", "/x"]\n', "Dockerfile:2: holds a NUL character"),
        ('FROM a\nCMD ["a\\u0000b"]\n', "Dockerfile:2: holds a NUL character"),
        ("FROM a\nRUN " + "--mount=x \\\n" * 70_000 + "y\n", "Dockerfile:2: RUN has more than 200 options"),
        ("FROM a\nSHELL bash\n", "SHELL has the form"),
    ],
)
def test_hostile_text(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(DockerfileError, match=why):
        plan_image(tmp_path, text)


def doubling(keyword: str, count: int) -> str:
    lines = (f"{keyword} A{index}=$A{index - 1}$A{index - 1}\n" for index in range(1, count))
    return f"{keyword} A0=xxxxxxxxxx\n{''.join(lines)}"


# Lines of at most 64 KiB, which is all that BuildKit reads.
MANY = " \\\n".join(" ".join(f"A{index}=1" for index in range(start, start + 6_000)) for start in range(0, 60_000, 6_000))
LONG = "\\\n".join(["x" * 50_000] * 2)
GROWING = {
    "before FROM": (doubling("ARG", 60) + "FROM a:$A59\n", 15, "becomes longer than 131072"),
    "a tag": (doubling("ARG", 25) + "FROM a:$A24\n", 15, "becomes longer than 131072"),
    "after FROM": ("FROM a\n" + doubling("ARG", 60) + "COPY $A59 /f\nRUN x\n", 16, "becomes longer than 131072"),
    "ENV": ("FROM scratch\n" + doubling("ENV", 60), 16, "becomes longer than 131072"),
    "in all": (f"FROM scratch\nENV A={LONG}\n" + "ENV B=y$A\n" * 9000, 45, "become more than 4194304"),
    "ports": (f"FROM a\nENV A={LONG}\nEXPOSE " + "$A " * 5000, 4, "become more than 4194304"),
    "variables": (f"FROM scratch\nENV {MANY}\n" + "ENV X=1\n" * 9000, 45, "too many variables"),
    "stages": (f"FROM scratch AS s\nENV {MANY}\n" + "FROM s\nENV x=1\n" * 4900, 79, "too many variables"),
    "defaults": (f"FROM scratch\nENV A={'${A:-' * 9000}{'}' * 9000}\n", 2, "nested deeper than 20"),
}


@pytest.mark.parametrize(("text", "line", "why"), GROWING.values(), ids=list(GROWING))
def test_what_grows_is_refused(tmp_path: Path, text: str, line: int, why: str) -> None:
    """However variables are made of each other, a plan stays as large as a Dockerfile."""
    with pytest.raises(DockerfileError, match=why) as caught:
        plan_image(tmp_path, text)
    assert caught.value.line == line


def test_scopes_that_nothing_changes_are_shared(tmp_path: Path) -> None:
    plan_image(tmp_path, f"FROM scratch\nENV {MANY}\n" + "RUN x\n" * 9000)


def test_what_a_session_expands_is_bounded() -> None:
    with pytest.raises(BadWordError, match="becomes longer"):
        expand_deferred("$A$A", {"A": "x" * 100_000})


def test_an_ignore_file_is_not_read_whole(tmp_path: Path) -> None:
    with (tmp_path / ".dockerignore").open("wb") as file:
        file.truncate(1 << 34)
    with pytest.raises(DockerfileError, match=r"\.dockerignore: cannot be read: has more than 262144 bytes"):
        plan_image(tmp_path, "FROM a\nRUN x\n")


def test_many_stages(tmp_path: Path) -> None:
    with pytest.raises(DockerfileError, match="Dockerfile:1001: has more than 1000 stages"):
        plan_image(tmp_path, "FROM a\n" * 9000)


def test_a_note_shows_no_secret(tmp_path: Path) -> None:
    text = f"FROM a\nADD https://u:SECRET{'x' * 100}@h/$V /x\n"
    assert "SECRET" not in str(plan_image(tmp_path, text).to_dict())


def test_links_out_of_the_task(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s")
    context = tmp_path / "task"
    (context / "d").mkdir(parents=True)
    (context / "link").symlink_to(tmp_path / "secret")
    with pytest.raises(DockerfileError, match="link is a link out of the task"):
        plan_image(context, "FROM a\nCOPY link /x\n")
    with pytest.raises(DockerfileError, match="link is a link out of the task"):
        plan_image(context, "FROM a\nCOPY . /x\n")
    (context / "link").unlink()
    (context / "d" / "up").symlink_to("..")
    with pytest.raises(DockerfileError, match="d/up is a link to a directory"):
        plan_image(context, "FROM a\nCOPY d /x\n")


def test_a_program_is_what_the_caller_says(tmp_path: Path) -> None:
    """Modes of a checkout do not enter a key where the cache gives them."""
    (tmp_path / "run").write_text("#!/bin/sh\n")
    (tmp_path / "run").chmod(0o644)
    text = "FROM a\nCOPY run /run\nRUN /run\n"
    plain, program = plan_image(tmp_path, text), plan_image(tmp_path, text, executable=lambda path: True)
    (tmp_path / "run").chmod(0o755)
    assert plan_image(tmp_path, text).key == program.key != plain.key


def test_a_files_mode_owner_and_time_do_not_matter(tmp_path: Path) -> None:
    keys = set()
    for number, mode in enumerate((0o600, 0o644, 0o666)):
        context = tmp_path / str(number)
        context.mkdir()
        (context / "a").write_text("x")
        (context / "a").chmod(mode)
        keys.add(plan_image(context, "FROM a\nCOPY a /a\nRUN b\n").key)
    assert len(keys) == 1


def test_escape_of_the_file_is_the_escape_of_its_words() -> None:
    parsed = parse_dockerfile("# escape=`\nFROM a\nENV A=c:\\x` y\n")
    assert parsed.escape == "`"
    assert parsed.instructions[1].arguments == "A=c:\\x` y"


@pytest.mark.parametrize(
    "line", ["WORKDıR /app", "ſHELL []", *(f"RUN{blank}true" for blank in ("\x85", "\u00a0", "\u3000", "\x1c"))]
)
def test_letters_and_blanks_that_become_ascii_make_no_keyword(line: str) -> None:
    with pytest.raises(DockerfileError, match="2: unknown instruction"):
        parse_dockerfile(f"FROM x\n{line}\n")


BLANKS = ["\x85", "\u00a0", "\u1680", "\u2003", "\u2028", "\u202f", "\u205f", "\u3000"]
# What Python takes for a blank and Go does not.
NO_BLANKS = ["\x1c", "\x1f", "\u200b", "\ufeff"]


@pytest.mark.parametrize("blank", BLANKS)
def test_blanks_of_unicode_end_words_of_arg_env_and_label_alone(tmp_path: Path, blank: str) -> None:
    (tmp_path / "a").write_text("x")
    planned = plan_image(
        tmp_path, f"{blank}FROM {blank}alpine{blank}\nENV A=1{blank}B=2\nENV C{blank}D e\n{blank}# c\nUSER {blank}u{blank}\n"
    )
    assert planned.base == ("alpine",)
    assert planned.deferred == (("ENV", "A", "1"), ("ENV", "B", "2"), ("ENV", f"C{blank}D", "e"), ("USER", "u"))
    for text, why in (
        (f"FROM alpine{blank}AS x", "FROM has the form"),
        (f"FROM alpine {blank}AS x", "FROM has the form"),
        (f"FROM alpine AS{blank}x", "FROM has the form"),
        (f"FROM a\nCOPY a{blank}/b\nRUN x", "COPY needs a source and a destination"),
        (f"FROM a\nEXPOSE 80{blank}81", "EXPOSE takes ports"),
        (f"FROM a\nHEALTHCHECK CMD{blank}x", "HEALTHCHECK has the form"),
        (f"FROM a\nENV A{blank}b", "needs a value"),
        (f"FROM a\nLABEL A{blank}b", "needs a value"),
        (f"FROM a\nONBUILD {blank}ONBUILD RUN x", "ONBUILD takes no ONBUILD"),
        (f"FROM a\nCOPY --chown=1{blank}a /b", "an option is of ASCII"),
    ):
        with pytest.raises(DockerfileError, match=why):
            plan_image(tmp_path, f"{text}\n")


@pytest.mark.parametrize("character", NO_BLANKS)
def test_what_is_no_blank_to_buildkit_stays(tmp_path: Path, character: str) -> None:
    planned = plan_image(tmp_path, f"FROM alpine\nENV A={character}1{character}B=2\nUSER {character}u\n")
    assert planned.deferred == (("ENV", "A", f"{character}1{character}B=2"), ("USER", f"{character}u"))
    with pytest.raises(DockerfileError, match="unknown instruction"):
        plan_image(tmp_path, f"FROM alpine\n{character}RUN x\n")


@pytest.mark.parametrize("blank", BLANKS)
def test_blanks_of_a_directive(blank: str) -> None:
    """Any stand before its name, as BuildKit has it; around the equals sign those of ASCII alone."""
    assert parse_dockerfile(f"{blank}#{blank}escape=`\nFROM x\n").escape == "`"
    assert parse_dockerfile(f"# escape{blank}=`\nFROM x\n").escape == BACKSLASH
    assert parse_dockerfile("# escape\t= `\f\nFROM x\n").escape == "`"


@pytest.mark.parametrize(("word", "value"), [("${A:?no}", "1"), ("${A?no}", "1"), ("${EMPTY?no}", "")])
def test_a_variable_that_is_needed_has_its_value(word: str, value: str) -> None:
    assert expand(word, BACKSLASH, lambda name: (name in KNOWN, KNOWN.get(name, ""))) == value


@pytest.mark.parametrize("word", ["${NONE:?why}", "${NONE?why}", "${EMPTY:?why}", "x${A:+${NONE:?why}}"])
def test_a_variable_that_is_needed_and_missing_is_told(word: str) -> None:
    with pytest.raises(BadWordError, match=r"(NONE|EMPTY) has no value, and needs one: why"):
        expand(word, BACKSLASH, lambda name: (name in KNOWN, KNOWN.get(name, "")))
