"""serve, publish, subscribe and token as a user types them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.broker.processes import BrokerProcess
from tests.cli.program import Result, run_here
from whimbrel.broker.service.principal import SCOPES


def whimbrel(*arguments: str, given: str = "") -> Result:
    return run_here(Path.cwd(), arguments, given.encode())


@contextmanager
def serving(data: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A broker as a program, on a port that the system picks, and its address. It is killed if it still runs."""
    command = [sys.executable, "-m", "whimbrel.cli.main", "serve", "--data", str(data), "--port", "0", "--json"]
    with subprocess.Popen([*command, *arguments], stderr=subprocess.PIPE, text=True) as broker:
        try:
            assert broker.stderr is not None
            yield broker, json.loads(broker.stderr.readline())["address"]
        finally:
            broker.kill()


def test_a_token_is_made_offline_and_used_online(tmp_path: Path) -> None:
    data = tmp_path / "data"
    made = whimbrel("token", "create", "root", "--scope", "admin", "--data", str(data))
    assert made.status == 0, made.stderr
    token = made.stdout.strip()
    with serving(data) as (broker, address):
        locked = whimbrel("token", "list", "--data", str(data))
        assert locked.status == 1 and "only writer" in locked.stderr
        refused = whimbrel("publish", "--url", address, given='{"a": 1}\n')
        assert refused.status == 1 and "401" in refused.stderr
        sent = whimbrel("publish", "--url", address, "--token", token, "--json", given='{"a": 1}\n{"a": 2}\n')
        assert json.loads(sent.stderr) == {"published": 2, "duplicates": 0, "refused": 0}
        more = whimbrel("token", "create", "p", "--scope", "publish", "--url", address, "--token", token)
        narrow = ("--scope", "publish", "--rule", "tenant=7", "--url", address, "--token", token)
        assert whimbrel("token", "change", "p", *narrow).status == 0
        twice = whimbrel("token", "change", "p", "--rule", "tenant=8", *narrow)
        assert twice.status == 2 and "Expected one value for each attribute" in twice.stderr
        listed = whimbrel("token", "list", "--url", address, "--token", token).stdout
        assert '"rules": {"tenant": 7}' in listed and more.stdout.strip() not in listed
        assert whimbrel("token", "revoke", "p?no", "--url", address, "--token", token).status == 1
        assert whimbrel("token", "list", "--url", address, "--token", token).stdout == listed
        assert whimbrel("token", "revoke", "p", "--url", address, "--token", token).status == 0
        broker.send_signal(signal.SIGTERM)
        assert broker.wait(30) == 0


def test_with_json_all_that_is_said_is_json(tmp_path: Path) -> None:
    schema = tmp_path / "shop.toml"
    schema.write_text('[attributes]\n"data.price" = "decimal"\n[types.bid]\n"data.price" = "mandatory"\n')
    with serving(tmp_path / "data", "--schema", str(schema)) as (_, address):
        event = {"specversion": "1.0", "id": "1", "source": "s", "type": "bid", "data": {"price": "dear"}}
        sent = whimbrel("publish", "--url", address, "--json", given=json.dumps(event))
        refused, counts = sent.error_lines
        assert "Expected" in refused["refused"] and counts == {"published": 0, "duplicates": 0, "refused": 1}
        assert sent.status == 1
    with serving(tmp_path / "shop", "--sample") as (broker, address):
        broker.send_signal(signal.SIGTERM)
        assert broker.stderr is not None
        assert "watch:" not in broker.stderr.read()


@pytest.mark.parametrize(
    "arguments", [("--port", "99999"), ("--set", "nope=1"), ("--engine", "nope")], ids=lambda given: given[0]
)
def test_a_wrong_setting_is_wrong_usage(arguments: tuple[str, ...], tmp_path: Path) -> None:
    refused = whimbrel("serve", "--data", str(tmp_path / "data"), *arguments)
    assert refused.status == 2 and refused.stderr.startswith("whimbrel: ")
    assert not (tmp_path / "data").exists()


def test_only_a_new_token_makes_a_data_directory(tmp_path: Path) -> None:
    for command in (["list"], ["revoke", "a"], ["change", "a", "--scope", "publish"]):
        for folder in (tmp_path / "none", tmp_path):
            refused = whimbrel("token", *command, "--data", str(folder))
            assert refused.status == 2 and "Expected the data directory of a broker" in refused.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("url", ["nonsense", "ftp://127.0.0.1"])
def test_an_address_that_is_none_is_wrong_usage(url: str) -> None:
    for command in (["publish"], ["subscribe", "a = 1"], ["token", "list"], ["schema", "fetch"]):
        refused = whimbrel(*command, "--url", url)
        assert (
            refused.status == 2
            and f"Expected an address such as http://127.0.0.1:8080, but got '{url}'" in refused.stderr
        )


def test_a_scope_that_there_is_not_is_wrong_usage(tmp_path: Path) -> None:
    for command in ("create", "change"):
        refused = whimbrel(
            "token", command, "a", "--scope", "publish", "--scope", "nope", "--data", str(tmp_path / "d")
        )
        assert refused.status == 2 and all(scope in refused.stderr for scope in ("'nope'", *SCOPES))
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"a": 1, "a": 2}', "'a' twice"),
        ('{"a":' * 100_000 + "1" + "}" * 100_000, "recursion"),  # deeper than any interpreter reads
        ("[1]", "got `array`"),
    ],
    ids=["a key twice", "deep", "no object"],
)
def test_an_event_that_a_broker_would_read_otherwise_is_not_sent(line: str, problem: str) -> None:
    refused = whimbrel("publish", given="\n" + line + "\n")
    assert refused.status == 2 and problem in refused.stderr and "in line 2" in refused.stderr


def test_what_is_published_is_printed(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        from whimbrel.client import Client

        with Client(broker.url) as client:
            id = client.create("data.a > 1")["id"]
            client.publish([{"a": 1}, {"a": 2}, {"a": 3}])
        shown = whimbrel("subscribe", "--id", id, "--limit", "2", "--url", broker.url)
        assert [json.loads(line)["data"] for line in shown.stdout.splitlines()] == [{"a": 2}, {"a": 3}]
        assert whimbrel("subscribe", "--url", broker.url).status == 2


def test_settings_come_from_flags_then_environment_then_file(tmp_path: Path) -> None:
    from whimbrel.broker.requests.settings import BadSettings, load_settings

    file = tmp_path / "broker.toml"
    file.write_text('port = 1\nhost = "::1"\nbody_bytes = 5\ntimestamps = ["time"]\n')
    environment = {"WHIMBREL_PORT": "2", "WHIMBREL_BODY_BYTES": "6", "WHIMBREL_CORS_ORIGINS": "a,b", "OTHER": "x"}
    found = load_settings({"port": 3, "data": None}, environment, file)
    assert (found.port, found.body_bytes, found.host) == (3, 6, "::1")
    assert (found.timestamps, found.cors_origins) == (["time"], ["a", "b"])
    bad_files = ('port = "many"', "surprise = 1", "port =", "port = 70000", "heartbeat = 0", "body_bytes = -1")
    for bad in (*bad_files, 'tls_certificate = "a.pem"'):
        file.write_text(bad)
        with pytest.raises(BadSettings):
            load_settings({}, {}, file)


def test_a_webhook_from_the_command_line(tmp_path: Path) -> None:
    from tests.broker.webhooks.receiver import Receiver
    from tests.broker.webhooks.test_webhooks import SETTINGS
    from whimbrel.client import Client

    settings = {**SETTINGS, "webhook_schedule": [0]}
    with (
        BrokerProcess(tmp_path, **settings) as broker,
        Receiver(lambda _: 500) as receiver,
        Client(broker.url) as client,
    ):

        def webhook(*arguments: str) -> list[Any]:
            done = whimbrel("webhook", *arguments, "--url", broker.url)
            assert done.status == 0, done.stderr
            return [json.loads(line) if line.startswith("{") else line for line in done.stdout.splitlines()]

        (made,) = webhook("create", receiver.url, "data.a > 1", "--waive-consent", "--batch", "5")
        id = made["id"]
        assert made["secret"].startswith("whsec_") and made["protocolsettings"] == {"consent": "waived", "batch": 5}
        client.publish([{"a": 1}, {"a": 2}])
        receiver.wait()
        while not (letters := webhook("dead-letters", id)):
            pass
        assert webhook("show", id)[0]["delivery"]["reason"] == "failing"
        assert webhook("attempts", id)[0]["status"] == 500
        receiver.behave = lambda _: 200
        assert webhook("redeliver", id, str(letters[0]["number"]))[0]["delivered"]
        (secret,) = webhook("rotate", id)
        assert webhook("enable", id) == [] and webhook("test", id)[0]["status"] == 200
        assert receiver.got[-1].is_signed(secret) and webhook("disable", id) == []
        assert client.undelivered(id) == [] and client.read(id)["delivery"]["reason"] == "by-owner"
