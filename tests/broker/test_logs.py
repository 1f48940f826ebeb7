"""What a broker logs, the ids of requests, and traces that go through it."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.broker.processes import PLAIN, BrokerProcess, free_port
from whimbrel.broker.logs import configure_logs
from whimbrel.broker.requests.envelope import structured
from whimbrel.broker.requests.request_trace import REQUEST_ID, RequestTrace, request_id
from whimbrel.broker.requests.settings import BadSettings, Settings, load_settings, to_toml, with_set

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
OTHER = "00-11111111111111111111111111111111-2222222222222222-00"


def event(**attributes: object) -> dict[str, object]:
    return {"specversion": "1.0", "id": "1", "source": "s", "type": "t", **attributes}


def test_an_answer_has_the_id_of_its_request(http: httpx.Client) -> None:
    assert http.get("/healthz", headers={"x-request-id": "abc-1"}).headers["x-request-id"] == "abc-1"
    drawn = http.get("/healthz", headers={"x-request-id": "two words"}).headers["x-request-id"]
    assert drawn != "two words" and len(drawn) == 32
    assert http.get("/nowhere").headers["x-request-id"] != drawn
    assert http.get("/tokens", headers={"authorization": "Basic x", "x-request-id": "r"}).headers["x-request-id"] == "r"


@pytest.mark.parametrize("text", ["", "a" * 129, "a b", "a\nb", "ä", '"x"'])
def test_an_id_that_is_not_sane_is_not_taken(text: str) -> None:
    assert request_id(text) != text


def test_events_carry_on_the_trace_of_their_request(broker: BrokerProcess, http: httpx.Client) -> None:
    id = http.post("/subscriptions", json={"filter": "traceparent IS NOT NULL"}).json()["id"]
    headers = {"traceparent": PARENT, "tracestate": "shop=1"}
    kind = {"content-type": "application/cloudevents-batch+json"}
    batch = [event(id="a"), event(id="b", traceparent=OTHER)]
    assert http.post("/events", content=json.dumps(batch), headers=headers | kind).status_code == 200
    lines = {"content-type": "application/x-ndjson"}
    assert http.post("/events", content='{"n": 1}\n{"n": 2}\n', headers=headers | lines).status_code == 200
    assert http.post("/events", json={"n": 3}, headers={"traceparent": "00-broken"}).status_code == 200
    found = [one["event"] for one in http.get(f"/subscriptions/{id}/messages").json()["messages"]]
    traces = [(one["traceparent"], one.get("tracestate")) for one in found]
    assert traces == [(PARENT, "shop=1"), (OTHER, None), (PARENT, "shop=1"), (PARENT, "shop=1")]


def test_only_well_formed_traces_are_taken_and_others_are_never_overwritten() -> None:
    zero = "0" * 32
    for bad in (None, "", PARENT.upper(), PARENT + "-1", f"ff{PARENT[2:]}", f"00-{zero}-b7ad6b7169203331-01"):
        assert RequestTrace.of(bad, None) is None
    assert RequestTrace.of(PARENT, "x" * 513) == RequestTrace(PARENT)
    trace = RequestTrace(PARENT, 'a="1"')
    plain = structured(json.dumps(event()).encode())
    assert json.loads(trace.carry(plain).raw) == event(traceparent=PARENT, tracestate='a="1"')
    own = structured(json.dumps(event(tracestate="b")).encode())
    assert trace.carry(own) is own


def test_lines_of_json_are_one_object_each() -> None:
    stream = io.StringIO()
    kept = {name: list(logging.getLogger(name).handlers) for name in ("whimbrel", "uvicorn")}
    try:
        configure_logs("json", "info", stream)
        REQUEST_ID.set("r-1")
        logging.getLogger("whimbrel.access").info("GET /\n", extra={"fields": {"status": 200}})
        logging.getLogger("whimbrel.broker").debug("not this")
        logging.getLogger("uvicorn.error").warning(
            "nor this, which comes with each request of a stranger that is no HTTP"
        )
        try:
            raise ValueError("no")
        except ValueError:
            logging.getLogger("uvicorn.error").exception("it broke")
        configure_logs("text", "info", stream)
        logging.getLogger("whimbrel.broker").info("two\nlines")
    finally:
        REQUEST_ID.set("")
        for name, handlers in kept.items():
            logger = logging.getLogger(name)
            logger.handlers, logger.propagate = handlers, True
            logger.setLevel(logging.NOTSET)
    first, second, third = stream.getvalue().splitlines()
    one, two = json.loads(first), json.loads(second)
    assert (one["level"], one["message"], one["status"], one["request"]) == ("info", "GET /\n", 200, "r-1")
    assert "ValueError: no" in two["error"] and one["time"].endswith("Z")
    assert third.endswith("info whimbrel.broker: two\\nlines request=r-1")


def test_a_served_broker_logs_its_start_its_requests_and_its_end(tmp_path: Path) -> None:
    port = free_port()
    command = [
        sys.executable,
        "-m",
        "whimbrel.cli.main",
        "serve",
        "--port",
        str(port),
        "--data",
        str(tmp_path),
        "--json",
    ]
    with subprocess.Popen([*command, "--log", "json", "--access-log"], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        seen = [json.loads(process.stderr.readline())]
        httpx.get(f"http://127.0.0.1:{port}/healthz?secret=1", headers={"x-request-id": "q"}, timeout=60, **PLAIN)
        process.terminate()
        seen += [json.loads(line) for line in process.stderr]
        assert process.wait() == 0
    by_message = {one.get("message"): one for one in seen}
    assert by_message["listening"]["end"] == 0
    assert by_message["GET /healthz 200"]["request"] == "q" and by_message["GET /healthz 200"]["seconds"] > 0
    assert "secret" not in json.dumps(seen) and by_message["stopped"]["failed"] is False


def test_any_setting_can_be_set_and_all_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHIMBREL_PORT", "1")
    settings = load_settings({"host": "::1"}, with_set(["port=7", "timestamps=a,b", "heartbeat=2.5"]))
    assert (settings.host, settings.port, settings.timestamps, settings.heartbeat) == ("::1", 7, ["a", "b"], 2.5)
    with pytest.raises(BadSettings, match="name of a setting"):
        with_set(["nothing=1"])
    file = tmp_path / "settings.toml"
    file.write_text(to_toml(settings))
    assert load_settings({}, {}, file) == settings
    assert load_settings({}, {}) == Settings()
