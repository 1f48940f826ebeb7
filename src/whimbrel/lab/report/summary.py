"""The summary in Markdown: verdicts and numbers of every claim, with the most telling plots beside the page."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from whimbrel.lab.report.report_contents import (
    PAPER_TITLES,
    Record,
    by_paper,
    counts,
    in_order,
    measured_sentence,
    verdict_word,
    was_busy,
    winner,
)
from whimbrel.storage.atomic import replace_file

TELLING = (
    "gryphon-time", "survey-time", "lesub-9b", "lesub-10", "lesub-11", "spaces-11", "spaces-13", "prefix-7",
    "prefix-14", "beyond-scaling", "beyond-churn", "beyond-quotes",
)  # fmt: skip
"""The experiments whose plots the summary shows."""
LARGEST_SVG = 200_000
"""Bytes of a vector drawing; one of more, which has thousands of points, is shown as pixels."""
SIGNS = {True: "holds", False: "**fails**", None: "not tested"}


def write_summary(records: Sequence[Record], path: Path) -> list[Path]:
    """Write the page and, in `images/results/` beside it, its plots; the files."""
    images = path.parent / "images" / "results"
    images.mkdir(parents=True, exist_ok=True)
    kept = {_image(record): record for record in records if record["name"] in TELLING}
    for old in (*images.glob("*.svg"), *images.glob("*.png")):
        if old.name not in kept:
            old.unlink()
    for name, record in kept.items():
        plot = (Path(record["folder"]) / "plot").with_suffix(Path(name).suffix)
        replace_file(images / name, [plot.read_bytes()])
    replace_file(path, [summary(records, os.path.relpath(images, path.parent)).encode()])
    return [path, *(images / name for name in kept)]


def summary(records: Sequence[Record], images: str) -> str:
    """The page; `images` is where it finds its plots."""
    found = counts(records)
    scales = Counter(record["scale"] for record in in_order(records))
    lines = [
        "# Results of the lab",
        "",
        "What the papers claim, and what came out here. Written by `make results` from "
        "`whimbrel lab run --all`; `whimbrel lab report` makes a page with every plot and table. "
        "[lab.md](lab.md) says how experiments run and when a claim holds.",
        "",
        f"{len(records)} experiments, "
        + " and ".join(f"{number} at scale {scale}" for scale, number in scales.items())
        + ": "
        + ", ".join(f"{number} {verdict}" for verdict, number in found.items() if number)
        + ".",
        "",
        measured_sentence(records),
    ]
    if was_busy(records):
        lines += [
            "",
            "Others used the machine while this ran. Times are CPU time, taken in turns: compare them with each other.",
        ]
    lines += ["", "| experiment | verdict | fastest | why |", "| --- | --- | --- | --- |"]
    lines += [_glance(record) for record in in_order(records)]
    for paper, some in by_paper(records).items():
        lines += ["", f"## {PAPER_TITLES.get(paper, paper)}"]
        for record in some:
            lines += _section(record, images)
    return "\n".join(lines) + "\n"


def _glance(record: Record) -> str:
    """One row of the table at the top: what came out, who wins, and why."""
    what = f"{record['paper']}, {record['figure']}"
    return f"| {_cell(what)} | {verdict_word(record)} | {winner(record['measures'])} | {_cell(record['why'])} |"


def _section(record: Record, images: str) -> list[str]:
    best = winner(record["measures"])
    sentence = f"Fastest: {best}. " if best else ""
    lines = [
        "",
        f"### {record['figure']}: {verdict_word(record)}",
        "",
        f"*{record['question']}* {sentence}{record['why']}",
    ]
    if record["claims"]:
        lines += ["", "| claim | outcome | numbers |", "| --- | --- | --- |"]
        lines += [
            f"| {_cell(claim['claim'])} | {SIGNS[claim['holds']]} | {_cell(claim['found'])} |"
            for claim in record["claims"]
        ]
    lines += [line for note in record["notes"] for line in ("", note)]
    if record["name"] in TELLING:
        lines += ["", f"![{record['question']}]({images}/{_image(record)})"]
    return [*lines, "", f"`{record['command']}`"]


def _image(record: Record) -> str:
    """The name of the file that has the plot."""
    size = (Path(record["folder"]) / "plot.svg").stat().st_size
    return f"{record['name']}.{'svg' if size <= LARGEST_SVG else 'png'}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
