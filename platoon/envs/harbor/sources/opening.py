"""From an entry's options to its source. Reads nothing but a registry file, which says whether it is pinned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from platoon.config.files import named_path, relative_path
from platoon.envs.harbor.options import HarborOptions
from platoon.envs.harbor.sources.adapter import adapter_source
from platoon.envs.harbor.sources.directory import DirectorySource
from platoon.envs.harbor.sources.git import GitSource
from platoon.envs.harbor.sources.hub import HubSource
from platoon.envs.harbor.sources.hugging_face import HuggingFaceSource
from platoon.envs.harbor.sources.protocol import Source
from platoon.envs.harbor.sources.reference import (
    DirectoryReference,
    GitReference,
    HubReference,
    HuggingFaceReference,
    parse_reference,
)
from platoon.envs.harbor.sources.registry import registry_source
from platoon.envs.harbor.sources.registry_file import HARBOR_REGISTRY


def portable_options(options: HarborOptions, base: Path) -> HarborOptions:
    """The options with every path that a lock records relative to `base`: an absolute one names a place of this machine."""

    def portable(text: str) -> str:
        return relative_path(Path(text), base) if text.startswith("/") and "\0" not in text else text

    changed: dict[str, Any] = {}
    if options.dataset is not None:
        changed["dataset"] = portable(options.dataset)
    if options.registry is not None:
        changed["registry"] = portable(options.registry)
    if options.adapter is not None:
        changed["adapter"] = options.adapter.model_copy(update={"repo": portable(options.adapter.repo)})
    if options.tasks is not None:
        changed["tasks"] = [portable(path) for path in options.task_files]
    return options.model_copy(update=changed)


def open_source(options: HarborOptions, base: Path) -> Source:
    """The source of an entry that names one; paths are relative to `base`. Raises ValueError for a reference that is none."""
    if options.adapter is not None:
        return adapter_source(options.adapter, base)
    assert options.dataset is not None
    parsed = parse_reference(options.dataset)
    if isinstance(parsed, DirectoryReference):
        return DirectorySource(options.dataset, named_path(parsed.path, base))
    if isinstance(parsed, GitReference):
        return GitSource(options.dataset, parsed)
    if isinstance(parsed, HubReference):
        return HubSource(options.dataset, parsed)
    if isinstance(parsed, HuggingFaceReference):
        return HuggingFaceSource(options.dataset, parsed)
    return registry_source(options.dataset, parsed, options.registry or HARBOR_REGISTRY, base)
