"""Layers and OCI layouts for tests, written with tarfile."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.twins.layer_owners import Member

LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
HERE = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())


def layer_tar(members: Sequence[Member], tar_format: int = tarfile.PAX_FORMAT) -> bytes:
    """An uncompressed layer. Files hold a few bytes."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tar_format, errors="surrogateescape") as archive:
        for member in members:
            info = tarfile.TarInfo(member.name.decode("utf-8", "surrogateescape"))
            info.type = member.kind.encode()
            info.uid, info.gid = member.uid, member.gid
            info.linkname = member.link.decode("utf-8", "surrogateescape")
            data = b"data\n" if member.kind == "0" else b""
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return stream.getvalue()


def digest_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


class Layout:
    """An OCI layout directory in the making."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.manifests: list[dict[str, Any]] = []
        (directory / "blobs/sha256").mkdir(parents=True)
        (directory / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
        self.write_index()

    def blob(self, data: bytes, media_type: str, **more: Any) -> dict[str, Any]:
        digest = digest_of(data)
        (self.directory / "blobs/sha256" / digest.removeprefix("sha256:")).write_bytes(data)
        return {"mediaType": media_type, "digest": digest, "size": len(data), **more}

    def document(self, value: Any, media_type: str, **more: Any) -> dict[str, Any]:
        return self.blob(json.dumps(value).encode(), media_type, **more)

    def image(self, layers: Sequence[bytes], architecture: str = HERE, variant: str = "", **more: Any) -> dict[str, Any]:
        """The descriptor of an image of these tars, which is not in the index yet."""
        diff_ids = [digest_of(layer) for layer in layers]
        config = {"os": "linux", "architecture": architecture, "rootfs": {"type": "layers", "diff_ids": diff_ids}}
        if variant:
            config["variant"] = variant
        manifest = {
            "schemaVersion": 2,
            "config": self.document(config, CONFIG),
            "layers": [self.blob(gzip.compress(layer, mtime=0), LAYER) for layer in layers],
        }
        return self.document(manifest, MANIFEST, **more)

    def add(self, descriptor: dict[str, Any]) -> dict[str, Any]:
        self.manifests.append(descriptor)
        self.write_index()
        return descriptor

    def write_index(self) -> None:
        (self.directory / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": self.manifests}))

    def path(self, descriptor: dict[str, Any]) -> Path:
        return self.directory / "blobs/sha256" / descriptor["digest"].removeprefix("sha256:")
