"""`whimbrel schema fetch` and `extend` against a broker that runs."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from tests.broker.processes import BrokerProcess
from whimbrel.cli.main import app
from whimbrel.client import Client
from whimbrel.model.schema import Schema

BASE = """
[attributes]
"data.price" = "decimal"
[types.bid]
"data.price" = "mandatory"
"""
MORE = """
[domains.colour]
kind = "enumerated"
values = ["red", "blue"]
[attributes]
"data.colour" = "colour"
[types.bid]
"data.colour" = "optional"
[types.sale]
"data.price" = "mandatory"
"""


def test_a_schema_is_extended_by_a_file_and_fetched(tmp_path: Path) -> None:
    base, more, whole = tmp_path / "base.toml", tmp_path / "more.toml", tmp_path / "whole.toml"
    base.write_text(BASE)
    more.write_text(MORE)
    run = CliRunner().invoke
    with BrokerProcess(tmp_path / "data", schema=str(base)) as process, Client(process.url) as client:
        assert "4 extensions" in run(app, ["schema", "extend", str(more), "--url", process.url]).output
        assert "0 extensions" in run(app, ["schema", "extend", str(more), "--url", process.url]).output
        whole.write_text(run(app, ["schema", "fetch", "--url", process.url]).output)
        mandatory = [one["name"] for one in client.schema_view(["bid", "sale"])["attributes"] if one["mandatory"]]
        assert mandatory == ["data.price"]
        (result,) = client.publish(
            [{"specversion": "1.0", "id": "1", "source": "s", "type": "sale", "data": {"price": 1}}]
        )
        assert result.offset is not None
    assert Schema.load(whole).types["bid"].keys() >= {"data.price", "data.colour"}
