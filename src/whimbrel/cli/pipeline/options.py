"""The options that several pipeline commands share, and the configuration file that can hold them.

The file is TOML with the names of the options; the command line wins. One file serves all commands: each takes the keys
that it has options for. A key that no command knows is refused.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Literal

import typer

from whimbrel.pipeline.connectors.files import InputFormat

_HINT = "--config"
_SETTINGS = "settings"


def load_config(context: typer.Context, path: Path | None) -> Path | None:
    """Make the values of the file the defaults of the command's options."""
    if path is None:
        return None
    known = _options_of_all_commands(context)
    mine = {parameter.name for parameter in context.command.params}
    defaults: dict[str, object] = {}
    for key, value in _read(path).items():
        name = known.get(key.replace("_", "-"))
        if name is None:
            close = get_close_matches(key, known, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else f"; the keys are {', '.join(sorted(known))}"
            raise typer.BadParameter(f"{path}: Expected the name of an option, but got {key!r}{hint}", param_hint=_HINT)
        if name in mine:
            defaults[name] = _as_given(path, key, value)
    context.default_map = {**(context.default_map or {}), **defaults}
    return path


Events = Annotated[
    str,
    typer.Option("--events", "-e", metavar="PATH", help="Parquet, JSON lines, CSV or ORC, or the directory of a log."),
]
IndexFolder = Annotated[str, typer.Option("--index", metavar="DIR", help="The directory of the compiled index.")]
Rejects = Annotated[
    str | None,
    typer.Option("--rejects", metavar="PATH", help="Write refused subscriptions there: id, text, message."),
]
Master = Annotated[
    str | None,
    typer.Option(
        "--master", metavar="URL", help="Where Spark runs: local[4], spark://host:7077, sc://host (default: here)."
    ),
]
Settings = Annotated[
    list[str] | None, typer.Option("--settings", metavar="NAME=VALUE", help="A setting of Spark; may be repeated.")
]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        is_eager=True,
        callback=load_config,
        help="TOML file with the names of these options; the command line wins.",
    ),
]
EventsFrom = Annotated[
    InputFormat | None, typer.Option("--from", help="Format of events whose name does not tell (default: json).")
]
SubscriptionsFrom = Annotated[
    InputFormat | None, typer.Option("--subscriptions-from", help="Format of subscriptions whose name does not tell.")
]
Key = Annotated[str, typer.Option("--key", metavar="A,B", help="What tells events apart (default: event_id, else id).")]
Schema = Annotated[
    str | None,
    typer.Option("--schema", metavar="DDL", help="What events must be, as 'id BIGINT, price DOUBLE', or a file of it."),
]
Form = Annotated[Literal["pairs", "lists"], typer.Option("--form", help="A row for each pair, or for each event.")]
Plan = Annotated[
    Literal["auto", "replicate", "shard"],
    typer.Option("--plan", help="How work is spread; auto goes by the size of the index."),
]


def _options_of_all_commands(context: typer.Context) -> dict[str, str]:
    """The parameter that each option of commands with --config sets, by the name of the option without dashes."""
    group = context.parent.command if context.parent is not None else context.command
    commands = getattr(group, "commands", {"": context.command})
    return {
        option.lstrip("-"): parameter.name
        for command in commands.values()
        if any(_HINT in parameter.opts for parameter in command.params)
        for parameter in command.params
        for option in parameter.opts
        if option.startswith("--") and option not in (_HINT, "--help") and parameter.name is not None
    }


def _read(path: Path) -> Mapping[str, object]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        problem = f"Expected a file to read, but got {str(path)!r}: {error.strerror}"
    except UnicodeDecodeError:
        problem = f"{path}: Expected text in UTF-8"
    except tomllib.TOMLDecodeError as error:
        problem = f"{path}: Expected TOML, but got: {error}"
    raise typer.BadParameter(problem, param_hint=_HINT)


def _as_given(path: Path, key: str, value: object) -> object:
    """The value in the form in which the command line would give it."""
    if key == _SETTINGS and isinstance(value, dict):
        return [f"{name}={text}" for name, text in _flat(value)]
    if key == _SETTINGS and isinstance(value, str):
        return [value]
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return value if key == _SETTINGS else ",".join(value)
    if isinstance(value, bool | int | float | str):
        return value
    found = "a table" if isinstance(value, dict) else f"{value!r}"
    raise typer.BadParameter(f"{path}: Expected a simple value, but got {found} - at {key}", param_hint=_HINT)


def _flat(table: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, str]]:
    """The values of nested tables with their dotted names: TOML reads `spark.ui.enabled = true` as tables."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", str(value).lower() if isinstance(value, bool) else str(value)
