"""The reference page of the benchmarks, and the table that the command prints."""

from __future__ import annotations

from bench.measure import Row

HEAD = """# Benchmarks

Made by `make bench`. What makes the numbers wrong: a machine that does other work meanwhile (ours and its peers take turns, so
ratios move less than times); sizes far from the ones given; a cold cache (everything here is warm); another file system, processor
or version. Only ratios are claimed: ours to the peer, medians of five turns, in CPU time with children unless the limit says wall.
A floor does a part of the work and nothing else; every other peer does all of it. Peak is what one call adds to a fresh process.
Where a limit is missed, the row says so, and leads to the section that shows what bounds it.
"""

LAYERS = """
Of a layer with files of usual sizes, three quarters of the time are libzstd's (`perf record`: 72 % in libzstd and its copies, 10 %
headers, 9 % the tree of owners, 5 % the allocator, 4 % the kernel), and the limit of 1.5 times libzstd holds.

It does not hold for the tree of the squashfs images. A member of it is 2 KiB of tar: two headers, a record and 200 bytes of noise,
each filled up with zeros, which lie in 230 bytes of zstd. libzstd unpacks them in 0.19 us; what is done for a member takes 0.22 us,
however its layer is stored, so twice the decoder's time is the bound:

| | libzstd or zlib-rs, its copies | headers | tree of owners | allocator | checksum of gzip | kernel and rest |
|---|---|---|---|---|---|---|
| zstd | 40 % | 24 % | 20 % | 8 % | | 8 % |
| gzip | 64 % | 13 % | 11 % | 5 % | 3 % | 4 % |

*Headers* are the sums of two blocks of 512 bytes, six octal numbers, a record and two names: sums of other widths or in lanes,
numbers without an early exit, and records that are filled in place each measured the same. *Tree* and *allocator* are the names of
what is not root's, kept in order, and the manifest made of them. Uncompressed, the same tree holds its limit.

Beside tarfile, a layer of usual files in gzip takes more than 1/25 because its decoder alone does: zlib-rs, the fastest one that
streams here, takes 1/21 of tarfile's time for those 356 MiB, of which a quarter is noise.
"""

ROWS = """
Found with `perf record`. *merge*: half of the time is `memcmp` of each prompt with its row, at 40 to 50 GB/s; the rest is the 13
bytes a token that are written and some 0.3 us a call at the boundary. *advantages to tokens*: the five bytes a token that are
written; on pages of 4 KiB two thirds of the time were page faults, so large columns are advised to large pages, as numpy's are.
*block to bytes*: SHA-256 of the tokens and of the sampled logprobs is a floor of its own (a third of the time), zstd's Huffman
coding of what does not repeat is another third. With uniformly random token ids, which no text has, both sides compress faster and
the ratio is near 0.6. On a virtual machine that gives freed pages back to its host, a large page that is touched again after two
seconds costs milliseconds: a busy one (rounds far apart) adds up to 0.2 s to whatever allocates a hundred megabytes.
"""

# By heading, which the bound of a peer names.
SECTIONS = {
    "What bounds the reading of layers": LAYERS,
    "What bounds the row kernels": ROWS,
}


def page(rows: list[Row]) -> str:
    lines = [HEAD, *table(rows)]
    versions = {name: version for row in rows for name, version in row["versions"].items()}
    for heading, text in SECTIONS.items():
        lines += ["", f"## {heading}", "", text.strip()]
    lines += ["", ", ".join(f"{name} {version}" for name, version in versions.items()) + "."]
    return "\n".join(lines) + "\n"


def table(rows: list[Row]) -> list[str]:
    lines = [
        "| kernel | data | ours, CPU ms | wall ms | peak, MiB | peer | peer, CPU ms | ratio | limit |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    shown = ""
    for row in rows:
        case = f"{row['kernel']} | {row['data']} | {row['ours_cpu_ms']:.2f} | {row['ours_wall_ms']:.2f} | {peak(row)}"
        lines.append(f"| {case if case != shown else ' | | | |'} | {row['peer']} | {number(row['peer_cpu_ms'])} | {outcome(row)} |")
        shown = case
    return lines


def peak(row: Row) -> str:
    limit = row["peak_limit_mb"]
    return f"{row['peak_mb']:.1f}" + (f" of {limit:g}" if limit is not None else "")


def outcome(row: Row) -> str:
    """The ratio and its limit."""
    limit = "" if row["limit"] is None else f"{row['limit']:.3g}{' wall' if row['by'] == 'wall' else ''}"
    if row["missing"]:
        return f"{row['missing']} | {limit}"
    if row["holds"]:
        return f"{number(row['ratio'])} | {limit}"
    return f"{number(row['ratio'])} | {limit}, **missed**{': ' * bool(row['bound'])}{link(row['bound'])}"


def link(heading: str) -> str:
    """To a section of this page; KeyError where there is none."""
    return f"[{heading.lower()}](#{heading.lower().replace(' ', '-')})" if heading and SECTIONS[heading] else ""


def number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
