"""The shell scripts that grading sends into a sandbox, and the readers of what they print.

Plain `sh`, arguments by position. Answers start at a random marker drawn for the call, so that nothing written before can look like
one. A file is read only when it is regular, has no second name and is reached through no link, and only up to a bound.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass

from platoon.envs.harbor.rewards import MAX_REWARD_FILE_BYTES, REWARD_FILES, FileState, RewardFile

LOGS, VERIFIER_LOGS, TESTS = "/logs", "/logs/verifier", "/tests"
TEST_OUTPUT = f"{VERIFIER_LOGS}/test-stdout.txt"
KEPT_TEST_OUTPUT_BYTES = 4096

WORKDIR_STATES = ("ok", "missing", "not_a_directory", "not_enterable")

# $1 marker, $2 working directory. A directory is entered in a child shell, since a failing cd ends some shells.
_STATE = """
if [ ! -e "$2" ]; then state=missing
elif [ ! -d "$2" ]; then state=not_a_directory
elif (cd -- "$2") 2>/dev/null; then state=ok
else state=not_enterable; fi
echo "$1 $state"
"""

# $3 log root, $4 verifier logs, $5 tests. What is closed to its owner is opened before a second try.
_AFRESH = """
[ "$state" = ok ] || exit 0
umask 022
if [ -L "$3" ] || [ ! -d "$3" ]; then rm -f -- "$3" && mkdir -- "$3" || exit 9; fi
if ! rm -rf -- "$4" "$5" 2>/dev/null; then
  chmod u+rwx -- "$3"
  for path in "$4" "$5"; do [ -L "$path" ] || [ ! -e "$path" ] || chmod -R u+rwx -- "$path"; done
  rm -rf -- "$4" "$5" || exit 9
fi
mkdir -p -- "$4" "$5" || exit 9
echo "$1 afresh"
"""

# $1 marker, $2 log root, $3 verifier logs, $4 tests, $5 bound of a reward file, $6 bytes of test output.
_READ = """
linked() { set -- $(ls -ldn -- "$1"); [ "$2" != 1 ]; }
real=yes
{ [ -L "$2" ] || [ -L "$3" ]; } && real=no
grep -qF -e " $3 " -e " $3/" /proc/self/mountinfo 2>/dev/null && real=no
for name in reward.json reward.txt; do
  path=$3/$name
  if [ ! -e "$path" ] && [ ! -L "$path" ]; then echo "$1 $name missing"
  elif [ $real = no ] || [ -L "$path" ] || [ ! -f "$path" ] || [ ! -r "$path" ] || linked "$path"; then echo "$1 $name not_regular"
  else
    echo "$1 $name regular"
    head -c "$5" -- "$path" || exit 9
    echo
  fi
done
echo "$1 output"
path=$3/test-stdout.txt
[ $real = yes ] && [ -f "$path" ] && [ ! -L "$path" ] && [ -r "$path" ] && tail -c "$6" -- "$path"
echo
echo "$1 end"
rm -rf -- "$4" 2>/dev/null
exit 0
"""


def new_marker() -> str:
    return f"platoon-{secrets.token_hex(12)}"


def state_command(marker: str, workdir: str) -> list[str]:
    """Asks what became of the working directory; for `read_state`."""
    return ["sh", "-c", _STATE, "sh", marker, workdir]


def prepare_command(marker: str, workdir: str) -> list[str]:
    """Asks the same, and where it is well makes the log and test directories afresh."""
    return ["sh", "-c", _STATE + _AFRESH, "sh", marker, workdir, LOGS, VERIFIER_LOGS, TESTS]


def read_command(marker: str) -> list[str]:
    """Prints reward files and the end of the tests' output, then removes the tests; for `read_output`."""
    bounds = [str(MAX_REWARD_FILE_BYTES + 1), str(KEPT_TEST_OUTPUT_BYTES)]
    return ["sh", "-c", _READ, "sh", marker, LOGS, VERIFIER_LOGS, TESTS, *bounds]


def read_state(marker: str, stdout: str) -> str | None:
    """One of `WORKDIR_STATES`, None when the shell could not tell."""
    for line in stdout.splitlines():
        word, _, state = line.partition(" ")
        if word == marker and state in WORKDIR_STATES:
            return state
    return None


def made_afresh(marker: str, stdout: str) -> bool:
    return f"{marker} afresh" in stdout.splitlines()


@dataclass(frozen=True)
class VerifierOutput:
    """files: one for each of `REWARD_FILES`, in order. test_output: the end of what the tests printed."""

    files: tuple[RewardFile, ...]
    test_output: str


def read_output(marker: str, stdout: str) -> VerifierOutput | None:
    """What `read_command` printed, None when it is not whole."""
    sections: dict[str, str] = {}
    for section in stdout.split(f"{marker} ")[1:]:
        head, newline, body = section.partition("\n")
        if newline:
            sections[head] = body
    files = [_reward_file(name, sections) for name in REWARD_FILES]
    if "end" not in sections or "output" not in sections or None in files:
        return None
    return VerifierOutput(tuple(file for file in files if file is not None), sections["output"].strip("\n"))


def _reward_file(name: str, sections: Mapping[str, str]) -> RewardFile | None:
    states: tuple[FileState, ...] = ("missing", "not_regular", "regular")
    for state in states:
        body = sections.get(f"{name} {state}")
        if body is None:
            continue
        if state != "regular":
            return RewardFile(name, state)
        # One newline was printed after the content; decoding may have made characters of several bytes out of one, never fewer.
        text = body[:-1]
        if len(text.encode("utf-8")) > MAX_REWARD_FILE_BYTES:
            return RewardFile(name, "too_large")
        return RewardFile(name, "regular", text)
    return None
