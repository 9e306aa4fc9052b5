"""`platoon report`: the page for people, and its figures as files, from receipts."""

from __future__ import annotations

from pathlib import Path

import click

from platoon.cli.options import FILE
from platoon.config.text import counted


@click.command()
@click.argument("receipts", nargs=-1, required=True, type=FILE)
@click.option("--out", required=True, type=FILE, help="The page to write.")
@click.option("--figures", required=True, type=FILE, help="The folder for one SVG a figure.")
@click.option("--recipe", default="", help="The recipe's path, shown below the title.")
@click.option("--log-file", type=FILE, help="Plain lines of progress are appended here.")
def report(receipts: tuple[Path, ...], out: Path, figures: Path, recipe: str, log_file: Path | None) -> None:
    """Write one self-contained page with curves, evaluation bars and a whole trajectory from RECEIPTS."""
    from platoon.artifacts.receipts import read_receipt
    from platoon.host.console import Console
    from platoon.report.data import report_of
    from platoon.report.page import write_report

    with Console(log_file=log_file) as console:
        console.progress("report", f"reading {counted(len(receipts), 'receipt')}")
        read = [read_receipt(path) for path in receipts]
        write_report(report_of(read), out, figures, recipe)
        console.say(f"report: {out}")
