"""The report: one HTML page with every plot, table, verdict, machine card and command. It needs no network."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from html import escape
from pathlib import Path

from whimbrel.lab.measure.benchmark_results import ResultTable
from whimbrel.lab.report.report_contents import (
    PAPER_TITLES,
    Record,
    by_paper,
    counts,
    machine_sentence,
    pivots,
    verdict_word,
    was_busy,
    winner,
)
from whimbrel.storage.atomic import replace_file

STYLE = """
:root { --ink: #1c2430; --soft: #5b6675; --line: #dfe4ea; --paper: #fff; }
* { box-sizing: border-box; }
body { margin: 0; font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: #f6f8fa; }
main { max-width: 1180px; margin: 0 auto; padding: 24px; }
h1 { margin: 8px 0 4px; } h2 { margin: 48px 0 12px; } h3 { margin: 0; font-size: 18px; }
a { color: #0b5cad; } p { margin: 8px 0; } .soft { color: var(--soft); font-size: 14px; }
article { background: var(--paper); border: 1px solid var(--line); border-radius: 8px; margin: 16px 0; }
article { padding: 18px 20px; }
article img { max-width: 100%; height: auto; display: block; margin: 10px 0; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: 14px; width: 100%; background: var(--paper); }
th, td { text-align: left; padding: 5px 10px; border-bottom: 1px solid var(--line); vertical-align: top; }
td.figure, th.figure { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.chip { display: inline-block; padding: 1px 9px; border-radius: 10px; font-size: 13px; font-weight: 600; }
.chip { white-space: nowrap; }
.reproduced { background: #d7f0de; color: #0d5524; } .partly { background: #fdf0c4; color: #6b4d00; }
.not { background: #fbdcd9; color: #8a1810; } .untestable, .measured { background: #e6e9ee; color: #47525f; }
ul.claims { list-style: none; padding: 0; margin: 8px 0; } ul.claims li { padding: 2px 0 2px 26px; text-indent: -26px; }
ul.claims b { display: inline-block; width: 26px; text-indent: 0; }
.yes { color: #0d7a34; } .no { color: #b3261e; } .open { color: #6b7785; }
code { background: #eef1f4; padding: 1px 5px; border-radius: 4px; font-size: 13px; }
details { margin-top: 8px; } summary { cursor: pointer; color: var(--soft); font-size: 14px; }
"""
SIGNS = {True: '<b class="yes">✓</b>', False: '<b class="no">✗</b>', None: '<b class="open">?</b>'}


def write_page(records: Sequence[Record], path: Path) -> Path:
    """Write the report of these results; the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, [page(records).encode()])
    return path


def page(records: Sequence[Record]) -> str:
    """The whole page."""
    groups = by_paper(records)
    parts = [_summary(records, groups)]
    for paper, found in groups.items():
        parts.append(f'<h2 id="{escape(paper)}">{escape(PAPER_TITLES.get(paper, paper))}</h2>')
        parts += [_article(record) for record in found]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><title>Whimbrel: the lab</title>'
        f"<style>{STYLE}</style></head><body><main>{''.join(parts)}</main></body></html>\n"
    )


def _summary(records: Sequence[Record], groups: dict[str, list[Record]]) -> str:
    """The head of the page: what came out, who wins where and why, and on which machine."""
    found = counts(records)
    chips = " ".join(f"{_chip(verdict)} {number}" for verdict, number in found.items() if number)
    rows = []
    for paper, some in groups.items():
        title = PAPER_TITLES.get(paper, paper)
        rows.append(f'<tr><th colspan="4"><a href="#{escape(paper)}">{escape(title)}</a></th></tr>')
        for record in some:
            link = f'<a href="#{record["name"]}">{escape(record["figure"])}</a>'
            rows.append(
                f"<tr><td>{link}<br><span class=soft>{escape(record['question'])}</span></td>"
                f"<td>{_chip(verdict_word(record))}</td><td>{escape(winner(record['measures']))}</td>"
                f"<td>{_prose(record['why'])}</td></tr>"
            )
    cards = list({record["machine"]["date"]: machine_sentence(record) for record in records}.values())
    versions = {record["version"] for record in records}
    busy = (
        "<p><b>Others used the machine while this ran:</b> compare times with each other, not with other machines.</p>"
    )
    return (
        "<h1>The lab of Whimbrel</h1>"
        "<p>The experiments of five papers, run again on this implementation, and questions that they leave open. "
        "A verdict says whether what a paper claims holds here; times of old machines are never claims.</p>"
        f"<p>{len(records)} experiments: {chips}</p>"
        f"{busy if was_busy(records) else ''}"
        '<div class="scroll"><table><tr><th>experiment</th><th>verdict</th><th>who wins</th><th>why</th></tr>'
        f"{''.join(rows)}</table></div>"
        f"<details><summary>Machine ({len(cards)} runs of {len(versions)} versions of the measured code)</summary>"
        + "".join(f"<p class=soft>{escape(card)}</p>" for card in cards)
        + "</details>"
    )


def _article(record: Record) -> str:
    measures = record["measures"]
    svg = base64.b64encode((Path(record["folder"]) / "plot.svg").read_bytes()).decode()
    claims = "".join(
        f"<li>{SIGNS[claim['holds']]}{escape(claim['claim'])}: <span class=soft>{escape(claim['found'])}</span></li>"
        for claim in record["claims"]
    )
    best = winner(measures)
    notes = "".join(f"<p class=soft>{_prose(note)}</p>" for note in record["notes"])
    tables = "".join(_table(pivot) for pivot in pivots(measures))
    return (
        f'<article id="{record["name"]}"><h3>{escape(record["figure"])} {_chip(verdict_word(record))}</h3>'
        f"<p>{escape(record['question'])}</p><ul class=claims>{claims}</ul>"
        f'<img alt="Plot of {escape(record["name"])}" src="data:image/svg+xml;base64,{svg}">'
        f"<p>{f'<b>{escape(best)}.</b> ' if best else ''}{_prose(record['why'])}</p>{notes}"
        f"<details><summary>Tables, machine and command</summary>{tables}"
        f"<p class=soft>{escape(machine_sentence(record))}</p><p><code>{escape(record['command'])}</code></p></details>"
        "</article>"
    )


def _table(pivot: ResultTable) -> str:
    head = "".join(f"<th class=figure>{escape(name)}</th>" for name in pivot.columns)
    rows = "".join(f"<tr>{''.join(f'<td class=figure>{escape(cell)}</td>' for cell in row)}</tr>" for row in pivot.rows)
    return f'<p class=soft>{escape(pivot.title)}</p><div class="scroll"><table><tr>{head}</tr>{rows}</table></div>'


def _prose(text: str) -> str:
    """A sentence in which backquotes mark code."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", escape(text))


def _chip(verdict: str) -> str:
    return f'<span class="chip {verdict}">{verdict}</span>'
