"""Twin of the owners of an image from its layers (`docs/reference/owners.md`): every node of the tree, and no haste.

Members are read with tarfile. A layer is a list of members, lowest layer first.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

HEADER = b"# platoon-owners-v1\n"
MOUNTED_OVER = (("dev",), ("proc",), ("sys",), ("tmp",), ("var", "tmp"))
LINK_LIMIT = 40
TARGET_BYTES = 4095
Path = tuple[bytes, ...]


class BadLayerError(ValueError):
    """What no runtime would unpack."""


@dataclass(frozen=True)
class Member:
    """kind: a type of tar headers. link: the target of a link."""

    name: bytes
    kind: str
    uid: int
    gid: int
    link: bytes = b""


@dataclass
class Node:
    """layer: which one made it. target: of a symbolic link."""

    uid: int
    gid: int
    layer: int
    is_directory: bool
    target: bytes | None = None
    children: dict[bytes, Node] = field(default_factory=dict)


def read_members(data: bytes) -> list[Member]:
    """The members of a tar, plain or in gzip."""
    with tarfile.open(fileobj=io.BytesIO(data), errors="surrogateescape") as archive:
        kinds = {tarfile.AREGTYPE: "0", tarfile.CONTTYPE: "0", tarfile.GNUTYPE_SPARSE: "0"}
        return [
            Member(_bytes(info.name), kinds.get(info.type, info.type.decode("latin-1")), info.uid, info.gid, _bytes(info.linkname))
            for info in archive
        ]


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def owner_manifest(layers: Sequence[Sequence[Member]]) -> bytes:
    """The canonical bytes. Raises BadLayerError."""
    root = Node(0, 0, 0, is_directory=True)
    for layer, members in enumerate(layers, 1):
        for member in members:
            take(root, member, layer)
    return write(walk(root, ()))


def take(root: Node, member: Member, layer: int) -> None:
    path = components(member.name)
    if not path:
        if member.kind != "5":
            raise BadLayerError("a root that is no directory")
        root.uid, root.gid = member.uid, member.gid
        return
    *parent, name = path
    if name.startswith(b".wh.") and not (name.startswith(b".wh..wh.") and name != b".wh..wh..opq"):
        hidden = name.removeprefix(b".wh.")
        if hidden in (b"", b".", b".."):
            raise BadLayerError("a whiteout of no name")
        directory = find(root, resolve(root, parent))
        if directory is not None:
            for below in list(directory.children) if name == b".wh..wh..opq" else [hidden]:
                hide(directory, below, layer)
        return
    if member.kind == "2" and len(member.link) > TARGET_BYTES:
        raise BadLayerError("a target that no system takes")
    shared = linked(root, member.link) if member.kind == "1" else None
    directory = enter(root, parent, layer)
    old = directory.children.get(name)
    if member.kind == "5":
        kept = old.children if old is not None and old.is_directory else {}
        directory.children[name] = Node(member.uid, member.gid, layer, is_directory=True, children=kept)
    elif shared is not None:
        directory.children[name] = Node(shared.uid, shared.gid, layer, is_directory=False, target=shared.target)
    else:
        target = member.link if member.kind == "2" else None
        directory.children[name] = Node(member.uid, member.gid, layer, is_directory=False, target=target)


def components(name: bytes) -> list[bytes]:
    parts = [part for part in name.split(b"/") if part not in (b"", b".")]
    if b".." in parts:
        raise BadLayerError("climbs")
    return parts


def resolve(root: Node, path: Sequence[bytes]) -> list[bytes]:
    """Where the directory `path` is; what is missing counts as a directory."""
    pending, done, links = list(path), list[bytes](), 0
    while pending:
        part = pending.pop(0)
        if part == b"..":
            del done[-1:]
            continue
        node = find(root, [*done, part])
        if node is None or node.target is None:
            done.append(part)
            continue
        links += 1
        if links > LINK_LIMIT:
            raise BadLayerError("loop")
        if node.target.startswith(b"/"):
            done = []
        pending = [piece for piece in node.target.split(b"/") if piece not in (b"", b".")] + pending
    return done


def find(root: Node, path: Sequence[bytes]) -> Node | None:
    node: Node | None = root
    for part in path:
        node = node.children.get(part) if node is not None else None
    return node


def enter(root: Node, path: Sequence[bytes], layer: int) -> Node:
    """The directory `path`, made where it is missing or something else stands there."""
    node = root
    for part in resolve(root, path):
        child = node.children.get(part)
        if child is None or not child.is_directory:
            child = node.children[part] = Node(0, 0, layer, is_directory=True)
        node = child
    return node


def linked(root: Node, link: bytes) -> Node:
    path = components(link)
    missing = Node(0, 0, 0, is_directory=False)
    if not path:
        return find(root, []) or missing
    return find(root, [*resolve(root, path[:-1]), path[-1]]) or missing


def hide(directory: Node, name: bytes, layer: int) -> None:
    """Takes a name and all below it out of lower layers; what this layer put below it stays, in directories of root's."""
    node = directory.children.get(name)
    if node is None:
        return
    for below in list(node.children):
        hide(node, below, layer)
    if node.layer < layer:
        if node.children:
            node.uid, node.gid, node.layer = 0, 0, layer
        else:
            del directory.children[name]


def walk(node: Node, path: Path) -> Iterator[tuple[Path, Node]]:
    yield path, node
    for name, child in node.children.items():
        if not name.startswith(b".wh..wh."):
            yield from walk(child, (*path, name))


def write(nodes: Iterable[tuple[Path, Node]]) -> bytes:
    mounted = [tuple(part.encode() for part in mount) for mount in MOUNTED_OVER]
    lines = {}
    for path, node in nodes:
        if (node.uid, node.gid) == (0, 0) or any(path[: len(mount)] == mount for mount in mounted):
            continue
        spelled = b"/" + b"/".join(path)
        if b"\n" not in spelled and b"\r" not in spelled:
            lines[spelled] = b"%d %d %s\n" % (node.uid, node.gid, spelled)
    return HEADER + b"".join(lines[path] for path in sorted(lines))
