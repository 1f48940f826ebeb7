"""How the measures of an experiment are drawn: panels side by side, one colour per series in all plots of the lab."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import cycle
from textwrap import fill
from typing import TYPE_CHECKING, Any, Literal

from whimbrel.lab.harness.claims import Outcome, figure
from whimbrel.lab.harness.measures import Measures, Where
from whimbrel.model.errors import WhimbrelError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C564B", "#7F7F7F", "#6A3D9A", "#B15928")
"""Colours that readers with impaired colour vision can tell apart, the most different ones first."""
COLOURS = {
    "engine": "#111111", "fair_predicate": "#D55E00", "equality_preferred": "#0072B2", "quarantine": "#009E73",
    "naive": "#7F7F7F", "compiled_naive": "#A0A0A0", "neon": "#CC79A7", "hanson": "#E69F00", "rapid": "#56B4E9",
    "modified_rapid": "#0072B2", "sgim": "#D55E00", "equality_tree": "#009E73",
}  # fmt: skip
"""Series that have the same colour everywhere."""
MARKS = {True: "+", False: "-", None: "?"}
"""Before a claim: it holds, it fails, it could not be tested."""


@dataclass(frozen=True, slots=True)
class Line:
    """A straight line that marks what a paper says: at a height `y`, or at a place `x`."""

    label: str
    y: float | None = None
    x: float | None = None


@dataclass(frozen=True, slots=True)
class Panel:
    """One pair of axes: a measure over a coordinate. Axes without a unit in their label are counts.

    With `split` a series is drawn once for each value of that coordinate.
    """

    measure: str
    x: str
    x_label: str
    y_label: str
    log_x: bool = True
    log_y: bool = True
    kind: Literal["lines", "bars", "points"] = "lines"
    split: str = ""
    where: Where | None = None
    lines: tuple[Line, ...] = ()


TIME_OVER_SIZE = Panel("time", "n", "subscriptions", "CPU us per event")
STEPS_OVER_SIZE = Panel("steps", "n", "subscriptions", "nodes visited per event")


class PlottingMissing(WhimbrelError):
    """Matplotlib is not installed."""

    def __init__(self) -> None:
        super().__init__("Expected matplotlib for plots, but it is not installed: pip install 'whimbrel[lab]'")


def check_matplotlib() -> None:
    """Raise `PlottingMissing` if nothing can be drawn."""
    if find_spec("matplotlib") is None:
        raise PlottingMissing


def draw(
    title: str, panels: Sequence[Panel], measures: Measures, judged: Sequence[tuple[str, Outcome]], fine: bool = True
) -> tuple[bytes, bytes]:
    """The plot as SVG and as PNG. The claims stand below it with what was found; `fine` is for print."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    notes = [fill(f"{MARKS[one.holds]} {text}: {one.found}", 150 if len(panels) > 1 else 100) for text, one in judged]
    caption = "\n".join(notes)
    below = 0.22 * (caption.count("\n") + 1) + 0.15
    width, height = 6.4 * len(panels) + 0.4, 4.3 + below
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": title, "font.family": "sans-serif", "font.size": 10}):
        whole = Figure(figsize=(width, height))
        whole.suptitle(title, x=0.02, y=1 - 0.1 / height, ha="left", va="top", fontweight="bold", fontsize=12)
        for number, panel in enumerate(panels):
            left = (1.0 + 6.4 * number) / width
            axes = whole.add_axes((left, (below + 0.55) / height, 5.2 / width, 3.1 / height))
            _draw_panel(axes, panel, measures)
        whole.text(0.02, 0.08 / height, caption, ha="left", va="bottom", fontsize=8.5, color="#333333")
        return _saved(whole, "svg"), _saved(whole, "png", 130 if fine else 40)


def _saved(whole: Figure, format: str, dpi: int = 100) -> bytes:
    out = io.BytesIO()
    whole.savefig(out, format=format, dpi=dpi, metadata={"Date": None} if format == "svg" else {})
    return out.getvalue()


@dataclass(frozen=True, slots=True)
class _Curve:
    """One line, or one colour of bars or points, of a panel."""

    label: str
    colour: str
    rows: list[Mapping[str, Any]]

    def column(self, name: str) -> list[Any]:
        return [row[name] for row in self.rows]

    def spread(self) -> list[list[float]]:
        """The distance from each value to the lowest and to the highest of its repeats."""
        return [[row["value"] - row["low"] for row in self.rows], [row["high"] - row["value"] for row in self.rows]]


def _draw_panel(axes: Axes, panel: Panel, measures: Measures) -> None:
    curves = _curves(panel, measures)
    if panel.kind == "bars":
        _draw_bars(axes, panel, curves)
    else:
        for curve in curves:
            (_draw_points if panel.kind == "points" else _draw_line)(axes, panel, curve)
        if panel.log_x:
            axes.set_xscale("log")
            _label_ticks(axes.xaxis)
    if panel.log_y and all(value > 0 for curve in curves for value in curve.column("value")):
        axes.set_yscale("log")
        _label_ticks(axes.yaxis)
    else:
        axes.set_ylim(0, 1.05 * axes.get_ylim()[1])
    for line in panel.lines:
        mark: dict[str, Any] = {"color": "#AA0000", "ls": ":", "lw": 1.6, "label": f"paper: {line.label}"}
        if line.y is not None:
            axes.axhline(line.y, **mark)
        if line.x is not None:
            axes.axvline(line.x, **mark)
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)
    axes.grid(True, which="major", color="#DDDDDD", lw=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    if curves or panel.lines:
        axes.legend(fontsize=8, edgecolor="none", framealpha=0.8).set_zorder(6)
    if not curves:
        axes.text(0.5, 0.5, "no point of this scale", transform=axes.transAxes, ha="center", color="#777777")


def _draw_bars(axes: Axes, panel: Panel, curves: Sequence[_Curve]) -> None:
    names = list(dict.fromkeys(str(value) for curve in curves for value in curve.column(panel.x)))
    width = 0.8 / max(1, len(curves))
    for number, curve in enumerate(curves):
        aside = width * (number - (len(curves) - 1) / 2)
        places = [names.index(str(value)) + aside for value in curve.column(panel.x)]
        axes.bar(
            places, curve.column("value"), width, yerr=curve.spread(), error_kw={"lw": 0.8},
            color=curve.colour, label=curve.label,
        )  # fmt: skip
    axes.set_xticks(range(len(names)), names)


def _draw_points(axes: Axes, panel: Panel, curve: _Curve) -> None:
    axes.scatter(curve.column(panel.x), curve.column("value"), 12, curve.colour, alpha=0.7, label=curve.label)


def _draw_line(axes: Axes, panel: Panel, curve: _Curve) -> None:
    xs = curve.column(panel.x)
    is_engine, is_bound = curve.label.startswith("engine"), curve.label.startswith(("bound", "expected", "paper"))
    axes.plot(
        xs, curve.column("value"), color=curve.colour, label=curve.label, ms=4, lw=2.6 if is_engine else 1.5,
        marker="" if is_bound or len(xs) > 60 else "o", ls="--" if is_bound else "-", zorder=5 if is_engine else 3,
    )  # fmt: skip
    low, high = curve.column("low"), curve.column("high")
    if low != high:
        axes.fill_between(xs, low, high, color=curve.colour, alpha=0.12, lw=0)


def _label_ticks(axis: Axis) -> None:
    """Write the ticks of a logarithmic axis as plain numbers; on short axes also those at 2 and 5."""
    from matplotlib.ticker import FuncFormatter

    axis.set_tick_params(which="both", pad=4)
    low, high = axis.get_view_interval()
    between = "25" if high < low * 100 else ""
    axis.set_major_formatter(FuncFormatter(lambda value, place: figure(value)))
    axis.set_minor_formatter(
        FuncFormatter(lambda value, place: figure(value) if f"{value:e}"[0] in between and value else "")
    )


def _curves(panel: Panel, measures: Measures) -> list[_Curve]:
    """The curves of a panel: of each series the rows that have the panel's coordinate, sorted by it."""
    out = []
    names = measures.names(panel.measure)
    if panel.kind == "points":
        names = sorted(names)
    fixed = {COLOURS[name] for name in names if name in COLOURS and not panel.split}
    others = cycle([colour for colour in PALETTE if colour not in fixed])
    for name in names:
        rows = [row for row in measures.chosen(panel.measure, name, panel.where) if row.get(panel.x) is not None]
        if panel.kind == "lines":
            rows.sort(key=lambda row: float(row[panel.x]))
        for part in dict.fromkeys(row.get(panel.split) for row in rows):
            label = f"{name}, {panel.split} {part}" if panel.split else name
            colour = None if panel.split else COLOURS.get(name)
            here = [row for row in rows if row.get(panel.split) == part]
            out.append(_Curve(label, colour or next(others), here))
    return out
