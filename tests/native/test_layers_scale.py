"""U44: a layer of a million members costs what it remembers, not what it holds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

pytestmark = pytest.mark.tools

MEMBERS, AT_ONCE = 1_000_000, 10_000
RECORD = b"14 mtime=1.25\n"
# The peak of this program alone: what the system counts for a process begins with the one that started it.
MEASURE = """
import re, sys
from pathlib import Path
from platoon import _native
peak = lambda: int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
before = peak()
data, count, _ = _native.layer_owners([(sys.argv[1], None, None, None, None)])
print(count, len(data), peak() - before)
"""


def closed(headers: np.ndarray) -> np.ndarray:
    """Headers (uint8[N, 512]) with their checksums."""
    headers[:, 148:156] = ord(" ")
    sums = headers.sum(axis=1, dtype=np.int64)
    headers[:, 148:154] = ord("0") + (sums[:, None] >> (3 * np.arange(5, -1, -1)) & 7)
    headers[:, 154] = 0
    return headers


def header(name: bytes, kind: bytes, size: int) -> bytes:
    return b"%-100b0000644\0%07o\0%07o\0%011o\0%011o\0        %b" % (name, 0, 0, size, 0, kind) + b"\0" * 100 + b"ustar\x0000"


def write_layer(path: Path, every: int) -> None:
    """Each member in a directory of 50 and with an extended header; one of `every` belongs to 7:0."""
    digits = 10 ** np.arange(6, -1, -1)
    name = b"usr/share/some/directory0000000/with/a/name/of/usual/length0000000"
    blocks = np.zeros((AT_ONCE, 3, 512), np.uint8)
    for place, data in enumerate((header(b"PaxHeaders/x", b"x", len(RECORD)), RECORD, header(name, b"0", 0))):
        blocks[:, place, : len(data)] = np.frombuffer(data.replace(b" " * 30, b"\0" * 30), np.uint8)
    blocks[:, 0] = closed(blocks[:, 0])
    member = blocks[:, 2]
    member[:, len(name) : 100] = 0
    with pa.output_stream(path, compression="zstd") as out:
        for first in range(0, MEMBERS, AT_ONCE):
            numbers = np.arange(first, first + AT_ONCE)
            for at, values in ((len(name) - 7, numbers), (24, numbers // 50)):
                member[:, at : at + 7] = ord("0") + values[:, None] // digits % 10
            member[:, 114] = np.where(numbers % every == 0, ord("7"), ord("0"))
            blocks[:, 2] = closed(member)
            out.write(blocks.tobytes())
        out.write(bytes(1024))


@pytest.mark.parametrize(("every", "allowed_mib"), [(1000, 24), (1, 512)])
def test_u44_a_million_members(tmp_path: Path, every: int, allowed_mib: int) -> None:
    write_layer(tmp_path / "layer.tar.zst", every)
    command = [sys.executable, "-c", MEASURE, str(tmp_path / "layer.tar.zst")]
    count, _, grown_kib = map(int, subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout.split())
    assert count == MEMBERS // every
    assert grown_kib < allowed_mib * 1024, f"{grown_kib / 1024:.0f} MiB"
    if every > 1:
        listed = subprocess.run(["bsdtar", "-tf", tmp_path / "layer.tar.zst"], check=True, stdout=subprocess.PIPE).stdout
        assert listed.count(b"\n") == MEMBERS
