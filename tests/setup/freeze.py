"""Prints the constraints of the environment that runs it, without what torch pins itself for graphics cards."""

from __future__ import annotations

import re
from importlib.metadata import distributions

PINNED_BY_TORCH = re.compile(r"nvidia-|cuda-|triton$|torch-?cuda")
HEADER = "# Exact versions of everything the project is tested with; pip reads it with -c. Renew it with `make lock`."


def main() -> None:
    print(HEADER)
    found = {(item.metadata["Name"], item.version.partition("+")[0]) for item in distributions()}
    for name, version in sorted(found, key=lambda pair: pair[0].lower()):
        if name.lower() not in ("platoon", "pip", "setuptools", "wheel") and not PINNED_BY_TORCH.match(name.lower()):
            print(f"{name}=={version}")


if __name__ == "__main__":
    main()
