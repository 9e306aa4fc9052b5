"""The grammar of references, what is pinned, and credentials: refused wherever they stand, and shown nowhere."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platoon.config.credentials import hide_credentials
from platoon.envs.harbor.options import HarborOptions
from platoon.envs.harbor.sources.reference import (
    DirectoryReference,
    GitReference,
    HubReference,
    HuggingFaceReference,
    RegistryReference,
    parse_reference,
)
from platoon.errors import ConfigError

pytestmark = pytest.mark.unit

COMMIT = "c0ffee" + "0" * 34
DIGEST = "sha256:" + "ab" * 32


@pytest.mark.parametrize(
    ("text", "parsed", "pinned"),
    [
        ("data/tasks", DirectoryReference("data/tasks"), None),
        ("~/tasks", DirectoryReference("~/tasks"), None),
        # H001: the three forms of a Hub reference, and none.
        ("harbor://org/name@7", HubReference("org/name", "revision", "7"), True),
        (f"harbor://org/name@{DIGEST}", HubReference("org/name", "digest", DIGEST), True),
        ("harbor://org/name@v1.2-rc", HubReference("org/name", "tag", "v1.2-rc"), False),
        ("harbor://org/na.me@latest", HubReference("org/na.me", "tag", "latest"), False),
        ("harbor://org/name", HubReference("org/name", "tag", "latest"), False),
        # H003: without an organisation it is a registry's.
        ("harbor://terminal-bench@2.0", RegistryReference("terminal-bench", "2.0"), None),
        ("harbor://terminal-bench", RegistryReference("terminal-bench", None), None),
        # H005, H020, H022.
        (f"git+https://host/r@{COMMIT}#a/b", GitReference("https://host/r", COMMIT, "a/b"), True),
        (f"git+https://host/r@{COMMIT}00{'0' * 22}", GitReference("https://host/r", COMMIT + "0" * 24, ""), True),
        ("git+https://host/r@main", GitReference("https://host/r", "main", ""), False),
        ("git+https://host/r@feature/x#./t/", GitReference("https://host/r", "feature/x", "t"), False),
        ("git+ssh://git@host/r#t", GitReference("ssh://git@host/r", None, "t"), False),
        ("git+ssh://git@host/r@v1", GitReference("ssh://git@host/r", "v1", ""), False),
        ("git+file:///a/r@v1", GitReference("file:///a/r", "v1", ""), False),
        *(
            (f"git+file:///a/r@{ref}", GitReference("file:///a/r", ref, ""), False)
            for ref in ("20260101", "defaced", "refs/heads/0aeae470")
        ),
        (f"hf://org/name@{COMMIT}#sub", HuggingFaceReference("org/name", COMMIT, "sub"), True),
        ("hf://datasets/org/name@refs/pr/1", HuggingFaceReference("org/name", "refs/pr/1", ""), False),
        ("hf://org/name", HuggingFaceReference("org/name", None, ""), False),
        (f"hf://org/name@{COMMIT.upper()}", HuggingFaceReference("org/name", COMMIT.upper(), ""), False),
    ],
)
def test_references(text: str, parsed: Any, pinned: bool | None) -> None:
    found = parse_reference(text)
    assert found == parsed
    assert getattr(found, "pinned", None) == pinned


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "must be a path"),
        ("a\nb", "on one line"),
        ("s3://bucket/x", "of no known kind, s3:"),
        ("https://host/x", "of no known kind, https:"),
        ("harbor://Org/../x", "must be harbor://org/name"),
        ("harbor://org/name@V1", "a tag of lower-case letters"),
        ("harbor://org/name@sha256:ab", "sha256: and 64 hex digits"),
        ("harbor://a@b@c", "must be harbor://name@version"),
        ("harbor://", "must be harbor://name@version"),
        ("harbor://-o/x", "must be harbor://org/name"),
        ("hf://name", "must be hf://org/name"),
        ("hf://org/name@", "must end in a commit"),
        ("hf://org/name@--x", "must end in a commit"),
        ("git+https://host/r@", "must end in a commit"),
        ("git+https://host/r@-x", "must end in a commit"),
        ("git+https://host/r@a..b", "must end in a commit"),
        ("git+https://host/r@x.lock", "must end in a commit"),
        ("git+https://host/r#/a", "is relative"),
        ("git+https://host/r#a/../../b", "has no '..'"),
        ("git+https://host/r#a/.git/b", "no '.git'"),
        ("git+ext::sh -c x", "without blanks"),
        ("git+file:r.git", "is written file:///<path>"),
        ("git+https:host/r", "is written https://<host>/<path>"),
        ("git+ext::sh", "must be a URL of https"),
        ("git+ftp://host/r", "must be a URL of https"),
        ("git+http://host/r", "must be a URL of https, ssh, git, file"),
        ("git+git@host:r", "user@host:path is written ssh://"),
        ("git+--upload-pack=x", "must be a URL"),
        ("git+ssh://-oProxyCommand=x/r", "a host does not begin with '-'"),
        ("git+ssh://-x@host/r", "a user does not begin with '-'"),
        ("git+https:///r", "names no host"),
        ("git+https://host:port/r", "is no URL"),
        ("git+https://ho%73t/r", "a host is a name"),
        ("git+FILE:///r", "a scheme is written in lower case: file"),
        ("git+Https://host/r", "a scheme is written in lower case: https"),
        (f"git+https://host/r@{COMMIT.upper()}", "a commit is written in lower case"),
        ("git+https://host/r@0aeae470#tasks", "a commit is written with all its 40 or 64 hex digits, a branch"),
        (f"git+https://host/r@{COMMIT[:-1]}", "a commit is written with all its 40 or 64 hex digits, a branch"),
        ("s3://bucket/x", "is of no known kind, s3: ("),
    ],
)
def test_what_is_no_reference(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        parse_reference(text)
    assert words in str(caught.value)


SECRET = "s3cr3t"


@pytest.mark.parametrize(
    "address",
    [
        f"https://user:{SECRET}@host/r",
        f"https://{SECRET}@host/r",
        f"http://:{SECRET}@host/r",
        f"ssh://git:{SECRET}@host/r",
        f"https://host/r?access_token={SECRET}",
        f"https://host/r?x=1&private-token={SECRET}",
        f"https://host/r?x=1;sig={SECRET}",
        f"https://host/r?X-Amz-Signature={SECRET}",
        f"https://user:pa/{SECRET}@host/r",
        f"https://user:pa#{SECRET}@host/r",
        f"https://user:pa ss{SECRET}@host/r",
        f"https:/user:{SECRET}@host/r.json",
        f"https:user:{SECRET}@host/r.json",
        f"https:/user:pa/{SECRET}@host/r.json",
        f"https:///user:{SECRET}@host/r.json",
        f"//user:{SECRET}@host/r",
        f"user:{SECRET}@host/r",
        f"HTTPS:/user:{SECRET}@host/r",
        f"https://u%3A{SECRET}%40host/r",
        f"https://u%3a{SECRET}@host/r",
        f"https://u:{SECRET}%40host/r",
        f"ssh://git%3A{SECRET}@host/r",
    ],
)
@pytest.mark.parametrize("key", ["dataset", "adapter", "registry"])
def test_h025_credentials_are_refused_and_not_shown(address: str, key: str) -> None:
    value: dict[str, Any] = {
        "dataset": {"dataset": f"git+{address}@{COMMIT}"},
        "adapter": {"adapter": {"repo": address, "commit": COMMIT, "command": ["x"]}},
        "registry": {"dataset": "harbor://name@1", "registry": address},
    }[key]
    with pytest.raises(ConfigError) as caught:
        HarborOptions.parse(value, key="e", file="c.yaml")
    text = str(caught.value)
    assert SECRET not in text
    assert {"dataset": "e.dataset: ", "adapter": "e.adapter.repo: ", "registry": "e.registry: "}[key] in text


def test_a_secret_in_a_value_of_the_wrong_kind_is_not_shown() -> None:
    with pytest.raises(ConfigError) as caught:
        HarborOptions.parse({"dataset": [f"git+https://u:{SECRET}@host/r?token={SECRET}"]})
    assert "***" in str(caught.value)
    assert SECRET not in str(caught.value)


@given(st.text(), st.text(alphabet=st.characters(exclude_characters="/?#@ \t\r\n\x0b\x0c\x1c\x1d\x1e\x1f\x85\xa0"), min_size=1))
def test_userinfo_never_survives(text: str, secret: str) -> None:
    shown = hide_credentials(f"https://{secret}:{secret}@host/x")
    assert shown == "https://***@host/x"
    # Nothing changes where there is neither an address nor a name with a value.
    if not set(text) & set("@%=:"):
        assert hide_credentials(text) == text


@given(st.text(max_size=60))
def test_any_text_is_a_reference_or_a_rule(text: str) -> None:
    for prefix in ("", "git+https://h/", "git+ssh://", "hf://", "harbor://", "harbor://o/n@"):
        try:
            parse_reference(prefix + text)
        except ValueError as error:
            assert str(error).isprintable()
