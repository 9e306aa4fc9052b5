"""Secrets are found by their form in whatever text they stand, what is none is left alone, and no text takes long."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platoon.config.credentials import hide_credentials, holds_userinfo, names_secret
from platoon.config.text import MOST_JUDGED_CHARACTERS, short_path, show

pytestmark = pytest.mark.unit

SECRET = "s3cr3tS3CR3T"

COMMIT = "6e596f91" * 5

HIDDEN = [
    (f"https://u:{SECRET}@h/x", "https://***@h/x"),
    (f"fatal: unable to access 'https://u:{SECRET}@h/x/': 403", "fatal: unable to access 'https://***@h/x/': 403"),
    (f"git+https:/u:{SECRET}@h/x", "git+https:/***@h/x"),
    (f"https:u:{SECRET}@h/x", "***@h/x"),
    (f"//u:{SECRET}@h/x", "//***@h/x"),
    (f"u:{SECRET}@h/x", "***@h/x"),
    (f"a/u:{SECRET}@h/x", "a/***@h/x"),
    (f"https://u%3A{SECRET}%40h/x@0", "https://***@h/x@0"),
    (f"https://u:pa/{SECRET}@h/x", "https://***@h/x"),
    (f"https://u:p?{SECRET}@h/x", "https://***@h/x"),
    (f"https://{SECRET}@h", "https://***@h"),
    (f"adapter:{SECRET}@h/x", "***@h/x"),
    (f"adapter:/{SECRET}@h/x", "adapter:/***@h/x"),
    (f"adapter:/u:{SECRET}@{COMMIT}", f"adapter:/***@{COMMIT}"),
    (f"https:///{SECRET}@h/x", "https:///***@h/x"),
    (f"git+file:///u:{SECRET}@h/x", "git+file:///***@h/x"),
    (f"file://{SECRET}@h/x", "file://***@h/x"),
    (f"file:///a,https://{SECRET}@h/x", "file:///a,https://***@h/x"),
    (f"adapter:u:{SECRET}@h/x", "***@h/x"),
    (f"my-adapter:{SECRET}@{COMMIT}", f"***@{COMMIT}"),
    (f"u:{SECRET}@{COMMIT}", f"***@{COMMIT}"),
    (f"adapter:https://u:{SECRET}@h/x@{COMMIT}", f"adapter:https://***@h/x@{COMMIT}"),
    (f"https://a@{SECRET}@h", "https://***@h"),
    (f"ssh://git:{SECRET}@h/x", "ssh://***@h/x"),
    (f"https://h/?a=1&access_token={SECRET}&b=2", "https://h/?a=1&access_token=***&b=2"),
    (f"https://h/?acc%65ss_token={SECRET}", "https://h/?acc%65ss_token=***"),
    (f"Authorization: Bearer {SECRET}", "Authorization: ***"),
    (f"> proxy-authorization: Basic {SECRET}\nAccept: x", "> proxy-authorization: ***\nAccept: x"),
    (f'{{"Authorization": "Bearer {SECRET}"}}', '{"Authorization": "***"}'),
    (f"X-Api-Key:{SECRET}", "X-Api-Key:***"),
    (f"Set-Cookie: sid={SECRET}; Path=/", "Set-Cookie: ***; Path=/"),
    (f"HF_TOKEN={SECRET} DB_PASSWORD={SECRET}", "HF_TOKEN=*** DB_PASSWORD=***"),
    (f"sent bearer {SECRET}", "sent bearer ***"),
    (f"invalid key sk-{SECRET}.", "invalid key ***."),
    (f"invalid key sk-ant-api03-{SECRET}", "invalid key ***"),
    (f"hf_{SECRET} is expired", "*** is expired"),
    ("ghp_0123456789abcdefABCD", "***"),
]
PLAIN = [
    "ssh://git@host/x",
    "git+ssh://git@host:22/x@v1#a",
    "git+https://host:8080/x@0123#a",
    "git@host:org/x@v1",
    "harbor://name@1.0",
    "harbor://org/name@sha256:00",
    "hf://org/name@main",
    "reg.io:5000/a/b:tag@sha256:00",
    "docker://a:tag@sha256:00",
    "file:///srv/a@b",
    "file:///a@b",
    "git+file:///repo@main#tasks",
    "GIT+FILE:///repo@v1",
    f"adapter:file:///repo@{COMMIT}",
    f"adapter:/repo@{COMMIT}",
    f'"adapter:/repo@{COMMIT}#sub/folder" ran',
    f"adapter:repo@{COMMIT}/registry.json",
    f"adapter:../the/repo@{COMMIT}#sub/folder",
    f"adapter: adapter:/srv/repo@{'0' * 64}: wrote no task",
    f'"adapter:repo@{COMMIT}" ran',
    f"adapter:https://h/repo@{COMMIT}",
    f"adapter:ssh://git@h/repo@{COMMIT}",
    f"adapter:git@h.org:o/repo@{COMMIT}",
    "me@host.org at 12:30",
    "https://h/x?sort=1&page=2",
    "the token of the task was refused",
    "task-01 hf_transfer hf_hub_download sk-learn",
    "tokens: 12, tokenizer: x",
]


@pytest.mark.parametrize(("text", "shown"), HIDDEN)
def test_secrets_are_hidden(text: str, shown: str) -> None:
    assert hide_credentials(text) == shown
    assert hide_credentials(shown) == shown


@pytest.mark.parametrize("text", PLAIN)
def test_what_is_no_secret_stays(text: str) -> None:
    assert hide_credentials(text) == text
    assert not holds_userinfo(text)


@pytest.mark.parametrize(
    "text",
    [
        *("x" * 400_000, "x:" * 200_000, "//" * 200_000 + "@", "//a:b" * 80_000, "@" * 400_000, ":@/" * 130_000, "?token" * 70_000),
        *("?" + "token" * 80_000, "a-" * 200_000, "sk-" * 130_000, "hf_" * 130_000, "eyJ" * 130_000, "bearer " * 60_000),
        *("sk-" + "a" * 400_000, "hf_" + "a" * 400_000 + "_", "authorization" * 30_000, "%40:" * 100_000, "/" * 400_000 + "@"),
    ],
    ids=lambda text: text[:12],
)
def test_no_text_takes_long(text: str) -> None:
    """A search that were not linear would take minutes here."""
    hide_credentials(text)


@given(st.text(alphabet="ab:@/%40?#=. ssh//\n", max_size=40))
def test_what_is_hidden_stays_hidden(text: str) -> None:
    once = hide_credentials(text)
    assert hide_credentials(once) == once


@pytest.mark.parametrize("filler", range(0, 60, 7))
def test_a_text_that_is_cut_shows_no_half_of_a_secret(filler: int) -> None:
    address = f"https://u:{SECRET * (MOST_JUDGED_CHARACTERS // 8)}@h"
    assert SECRET[:4] not in show("y" * filler + " " + address)
    assert show("x" * 10_000) == f'"{"x" * 78}…'


def test_a_path_that_is_a_slip_of_an_address() -> None:
    assert short_path(f"https:/u:{SECRET}@h/r.json") == "https:/***@h/r.json"


def test_names_of_secrets() -> None:
    assert all(map(names_secret, ("token", "X-Amz-Signature", "pw", "api%5Fkey")))
    assert not any(map(names_secret, ("page", "keyword", "pattern")))
