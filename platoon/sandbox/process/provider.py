"""Starts, restores and reaps process sandboxes."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from platoon.errors import ConfigError, Problem
from platoon.host.processes import boot_id
from platoon.host.scratch import check_private
from platoon.host.trees import copy_tree
from platoon.sandbox.base import SandboxLeft, SandboxSnapshot, SandboxSpec
from platoon.sandbox.process import killing, layout
from platoon.sandbox.process.path_map import HOME, ROOTS, PathMap
from platoon.sandbox.process.sandbox import ProcessSandbox, enough_tools
from platoon.sandbox.relay import LoopbackRelay, check_upstreams

logger = logging.getLogger(__name__)

REAP_WAIT_S = 10.0
MADE = (HOME, "/logs/agent", "/logs/verifier", "/logs/artifacts")


class ProcessProvider:
    """Sandboxes without isolation, for tests and tasks you trust. root: where they live; by default in node scratch."""

    name = "process"
    isolates = False
    only_image = "local"
    makes_directories = True
    capabilities = frozenset({"snapshot", "routes", "host_loopback"})

    def __init__(self, *, root: str | Path | None = None) -> None:
        self.options: Mapping[str, Any] = {} if root is None else {"root": str(root)}
        self._given_root = None if root is None else Path(root)

    @classmethod
    def unavailable(cls, options: Mapping[str, Any]) -> str | None:
        if not sys.platform.startswith("linux"):
            return "it reads /proc, so it needs Linux"
        return enough_tools()

    @classmethod
    def network_none_refusal(cls, options: Mapping[str, Any]) -> str | None:
        """None: such a sandbox is started, and its network is this host's, as docs/concepts/sandboxes.md says."""
        return None

    @classmethod
    def rootfs_layout_refusal(cls, options: Mapping[str, Any]) -> str | None:
        return None

    @classmethod
    def root_refusal(cls, options: Mapping[str, Any]) -> str | None:
        return "process sandboxes run every command as the user that started them"

    @classmethod
    def stack_refusal(cls, options: Mapping[str, Any]) -> str | None:
        return "process sandboxes run one service only"

    @classmethod
    def privilege_refusal(cls, options: Mapping[str, Any]) -> str | None:
        return "process sandboxes give no privileges"

    @classmethod
    def loses_file_owners(cls, options: Mapping[str, Any]) -> bool:
        return True

    @classmethod
    def file_owners_refusal(cls, options: Mapping[str, Any]) -> str | None:
        return "process sandboxes have no image whose owners could be kept"

    async def start(self, spec: SandboxSpec) -> ProcessSandbox:
        """Raises ConfigError for an image, upstream or manifest it cannot serve, PlatoonError for a root that is not ours."""
        return await self._start(spec, None)

    async def restore(self, snapshot: SandboxSnapshot, spec: SandboxSpec) -> ProcessSandbox:
        """A new sandbox that begins with the files of a snapshot."""
        return await self._start(spec, Path(snapshot.path))

    async def _start(self, spec: SandboxSpec, files: Path | None) -> ProcessSandbox:
        self._check(spec)
        directory = layout.new_directory(self._root())
        relays: dict[str, LoopbackRelay] = {}
        try:
            layout.write_record(directory, spec.labels)
            if files is not None:
                await asyncio.to_thread(copy_tree, files, directory / "fs", links=True)
            lay_out(directory / "fs", spec)
            for name, endpoint in spec.upstreams.items():
                if endpoint.startswith("unix://"):
                    relays[name] = LoopbackRelay(Path(endpoint.removeprefix("unix://")))
                    await relays[name].start()
            return ProcessSandbox(directory, spec, relays)
        except BaseException:
            for relay in relays.values():
                await relay.close()
            layout.remove_sandbox(directory, spec.labels)
            raise

    async def reap(self, labels: Mapping[str, str]) -> int:
        """As `base.SupportsReap.reap`; returns once the processes are gone, or after 10 s with a warning that names them."""
        if not labels:
            raise ValueError("reaping needs labels: without any, every sandbox would match")
        root = self._given_root or layout.default_root()
        if root.is_symlink() or not root.is_dir():
            return 0
        check_private(root)
        mine = list(self._abandoned(root.resolve(), labels))
        ends = await asyncio.gather(*(self._end(directory) for directory in mine), return_exceptions=True)
        if left := [end for end in ends if end is not None]:
            raise SandboxLeft("; ".join(map(str, left)))
        return len(mine)

    def _root(self) -> Path:
        if self._given_root is None:
            return layout.default_root()
        self._given_root.mkdir(mode=0o700, parents=True, exist_ok=True)
        check_private(self._given_root)
        return self._given_root.resolve()

    @staticmethod
    def _check(spec: SandboxSpec) -> None:
        if spec.image != ProcessProvider.only_image:
            raise ConfigError(
                Problem(
                    f"the process provider runs the image 'local' only, not {spec.image!r}",
                    advice="set default_image: local, or another provider",
                )
            )
        if spec.file_owners is not None:
            raise ConfigError(Problem("the process provider applies no owner manifest", key="file_owners"))
        check_upstreams(dict(spec.upstreams))

    @staticmethod
    def _abandoned(root: Path, labels: Mapping[str, str]) -> list[Path]:
        found = []
        for directory in layout.sandbox_directories(root):
            record = layout.read_record(directory)
            if record is None and layout.is_half_made(directory):
                try:
                    layout.remove_sandbox(directory, {})
                except SandboxLeft as left:
                    logger.warning("%s", left)
            elif record is not None and record.abandoned() and labels.items() <= record.labels.items():
                found.append(directory)
        return found

    @staticmethod
    async def _end(directory: Path) -> None:
        record = layout.read_record(directory)
        # Pids and start times of another boot name other processes.
        same_boot = record is not None and record.owner.boot_id == boot_id()
        groups = layout.read_groups(directory) if same_boot else {}
        left = await killing.Killer([f"{killing.MARKER}={directory / 'fs'}"], groups).until_gone(REAP_WAIT_S)
        if left:
            logger.warning("%s: still running: %s", directory, ", ".join(str(row.pid) for row in left))
            return
        await asyncio.to_thread(layout.remove_sandbox, directory, record.labels if record is not None else {})


def lay_out(fs: Path, spec: SandboxSpec) -> None:
    """Makes the roots, links the mounts, then makes the working directory unless it is a mount's or inside a read-only one."""
    paths = PathMap(fs, (spec.workdir, *(mount.target for mount in spec.mounts)))
    for root in (*ROOTS, *MADE):
        if not any(root == mount.target for mount in spec.mounts):
            _make(Path(f"{fs}{root}"))
    for mount in spec.mounts:
        target = paths.host(mount.target, "/")
        source = Path(mount.source).resolve()
        if not source.exists():
            raise ConfigError(Problem(f"the mount's source {mount.source!r} is not there", key=f"mounts.{mount.target}"))
        if target.is_symlink():
            target.unlink()
        elif target.is_dir():
            target.rmdir()
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(source)
    workdir = paths.host(spec.workdir, "/")
    read_only = [Path(mount.source).resolve() for mount in spec.mounts if mount.read_only]
    if not any(Path(os.path.realpath(workdir)).is_relative_to(source) for source in read_only):
        workdir.mkdir(parents=True, exist_ok=True)


def _make(path: Path) -> None:
    path.mkdir(parents=True, exist_ok=True)
