"""SIF files made by hand, for a machine without Apptainer: a header, descriptors, and the objects one after another."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

DEFINITION, PARTITION, ROOT_INDEX, BLOB = 0x4001, 0x4004, 0x400A, 0x400B
SQUASHFS, EXT3, ENCRYPTED = 1, 2, 5
PRIMARY, DATA, OVERLAY = 2, 3, 4
SQUASHFS_LAYER = "application/vnd.sylabs.image.layer.v1.squashfs"
HEADER_BYTES, DESCRIPTOR_BYTES = 128, 585


@dataclass(frozen=True)
class Object:
    kind: int
    data: bytes
    name: bytes = b""
    extra: bytes = b""


def partition(data: bytes, file_system: int = SQUASHFS, role: int = PRIMARY) -> Object:
    return Object(PARTITION, data, b"squash.img", struct.pack("<ii3s", file_system, role, b"02\0"))


def digest_of(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def blob(data: bytes) -> Object:
    return Object(BLOB, data, extra=digest_of(data).encode())


def sif(objects: Sequence[Object]) -> bytes:
    start = HEADER_BYTES + len(objects) * DESCRIPTOR_BYTES
    descriptors, data = b"", b""
    for number, item in enumerate(objects, 1):
        size = len(item.data)
        descriptors += struct.pack(
            "<i?III7q128s384s",
            item.kind,
            True,
            number,
            0xF0000001,
            0,
            start + len(data),
            size,
            size,
            0,
            0,
            0,
            0,
            item.name,
            item.extra,
        )
        data += item.data
    counts = (0, 0, 0, len(objects), HEADER_BYTES, len(descriptors), start, len(data))
    return struct.pack("<32s10s3s3s16s8q", b"", b"SIF_MAGIC\0", b"01\0", b"02\0", b"", *counts) + descriptors + data


def oci_sif(layers: Sequence[tuple[str, bytes]], config: dict[str, Any]) -> bytes:
    def described(media_type: str, data: bytes) -> dict[str, Any]:
        return {"mediaType": media_type, "digest": digest_of(data), "size": len(data)}

    config_bytes = json.dumps(config).encode()
    manifest = json.dumps(
        {
            "schemaVersion": 2,
            "config": described("application/vnd.oci.image.config.v1+json", config_bytes),
            "layers": [described(media_type, data) for media_type, data in layers],
        }
    ).encode()
    index = json.dumps(
        {"schemaVersion": 2, "manifests": [described("application/vnd.oci.image.manifest.v1+json", manifest)]}
    ).encode()
    blobs = [blob(data) for _, data in layers] + [blob(config_bytes), blob(manifest)]
    return sif([*blobs, Object(ROOT_INDEX, index)])
