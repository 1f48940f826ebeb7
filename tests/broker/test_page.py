"""The live page, in a real browser and over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.broker.browser import CHROMIUM, Browser
from tests.broker.processes import PLAIN, BrokerProcess
from whimbrel.broker.page.sessions import SESSIONS, Sessions
from whimbrel.broker.store import Token
from whimbrel.client import Client

needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium (Debian: apt install chromium)")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as opened:
        yield opened


@pytest.fixture
def root(broker: BrokerProcess) -> Iterator[str]:
    """A token of an admin, as long as the test runs."""
    with httpx.Client(base_url=broker.url, **PLAIN) as http:
        made = http.post("/tokens", json={"name": "root", "scopes": ["admin"]}).json()["token"]
        yield made
        http.delete("/tokens/root", headers={"authorization": f"Bearer {made}"})


def text(browser: Browser, id: str) -> str:
    return str(browser.run(f"document.getElementById('{id}').innerText"))


@needs_browser
def test_the_page_shows_rates_the_tail_and_the_busiest_subscriptions(broker: BrokerProcess, browser: Browser) -> None:
    with Client(broker.url) as client:
        client.create("data.price < 5")
        browser.go(broker.url)
        browser.wait("document.getElementById('state').innerText === 'live'")
        browser.wait("document.getElementById('published').innerText !== '–'")
        client.publish([{"price": 3, "name": "<b>owl</b>"}, {"price": 9}])
        row = browser.wait("document.querySelector('#tail tbody tr')?.innerText")
        assert '{"price":3,"name":"<b>owl</b>"}' in row, "an event is shown as text, never as HTML"
        browser.wait("document.querySelectorAll('#busiest li').length === 1")
        browser.wait("document.querySelectorAll('.chart canvas').length === 2")
    assert browser.problems == []


@needs_browser
def test_the_playground_explains_a_filter_while_it_is_typed(broker: BrokerProcess, browser: Browser) -> None:
    with Client(broker.url) as client:
        client.publish([{"price": 3, "kind": "toy"}, {"price": 7, "kind": "toy"}])
    browser.go(broker.url)
    browser.wait("document.querySelector('main').hidden === false")
    browser.type("#filter", "data.price <")
    browser.wait("!document.getElementById('filter-error').hidden")
    lines = text(browser, "filter-error").split("\n")
    assert lines[0].startswith("Expected an attribute or a literal, but got the end of the filter")
    assert lines[2].index("^") == lines[1].index("data.price <") + len("data.price <")

    browser.type("#filter", "data.kind = 'toy' and data.price between 2 and 5")
    browser.wait("document.querySelectorAll('#matches li').length && !document.getElementById('answers').hidden")
    assert text(browser, "canonical") == "data.kind = 'toy' AND data.price BETWEEN 2 AND 5"
    assert "of events reach it" in text(browser, "keys")
    browser.wait("document.getElementById('matches').innerText.includes('\"price\":3')")
    assert "off by 2" in text(browser, "near")

    browser.click("#near li")
    browser.wait("document.getElementById('verdict').innerText.includes('It does not match.')")
    assert browser.run("document.querySelectorAll('#verdict .failed').length") == 1
    browser.type("#event", '{"data": {"price": 4, "kind": "toy"}}')
    browser.wait("document.getElementById('verdict').innerText.includes('It matches.')")
    browser.type("#event", "{")
    browser.wait("document.getElementById('verdict').innerText.includes('Expected an event as JSON')")
    assert browser.problems == []


@needs_browser
def test_a_slow_answer_about_an_older_filter_does_not_hide_the_newer_one(
    broker: BrokerProcess, browser: Browser
) -> None:
    browser.go(broker.url)
    browser.wait("document.querySelector('main').hidden === false")
    browser.type("#filter", "data.old=0")
    browser.wait("document.getElementById('canonical').innerText === 'data.old = 0'")
    browser.run(
        """{
        const ask = window.fetch;
        window.held = {};
        window.fetch = (path, options) => path.endsWith("/validate")
            ? new Promise((go) => { held[JSON.parse(options.body).filter] = () => ask(path, options).then(go); })
            : ask(path, options);
        }"""
    )
    for filter in ("data.a=1", "data.b=2"):
        browser.type("#filter", filter)
        browser.wait(f"'{filter}' in held")
    browser.run("held['data.a=1']().then(() => undefined)")
    browser.run("held['data.b=2']().then(() => undefined)")
    browser.wait("document.getElementById('canonical').innerText === 'data.b = 2'", 10)


@needs_browser
@pytest.mark.parametrize(("width", "dark"), [(390, False), (1280, True)], ids=["phone", "dark"])
def test_the_page_fits_a_phone_and_a_dark_room(broker: BrokerProcess, width: int, dark: bool, tmp_path: Path) -> None:
    with Browser(width, 900, dark) as browser:
        browser.go(broker.url)
        browser.wait("document.querySelectorAll('.chart canvas').length === 2")
        assert browser.run("document.documentElement.scrollWidth") <= width, "nothing reaches beyond the screen"
        light = browser.run("getComputedStyle(document.body).backgroundColor") == "rgb(247, 245, 241)"
        assert light is not dark
        browser.picture(tmp_path / "page.png")
        assert browser.problems == []


@needs_browser
def test_a_browser_logs_in_with_a_cookie_that_scripts_cannot_read(
    broker: BrokerProcess, browser: Browser, root: str
) -> None:
    browser.go(broker.url)
    browser.wait("document.getElementById('login')?.hidden === false")
    browser.type("#token", "whb.root.wrong")
    browser.click("#login button")
    browser.wait("document.getElementById('login-error').innerText.includes('Expected a token')")
    browser.type("#token", root)
    browser.click("#login button")
    browser.wait("document.getElementById('state').innerText === 'live'")
    assert text(browser, "who") == "root"
    assert browser.run("document.cookie") == ""
    browser.click("#logout")
    browser.wait("document.getElementById('login')?.hidden === false")


def test_a_session_is_a_strict_cookie_of_this_host(broker: BrokerProcess, root: str) -> None:
    with httpx.Client(base_url=broker.url, **PLAIN) as http:
        assert http.get("/session").status_code == 401
        begun = http.post("/login", json={"token": root})
        assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(begun.headers["set-cookie"].split("; "))
        assert http.get("/session").json() == {
            "name": "root",
            "scopes": ["admin"],
            "constrained": False,
            "session": True,
        }
        body = {"filter": "data.a = 1"}
        foreign = {"origin": "http://evil.example"}
        assert http.post("/subscriptions", json=body).status_code == 403, "a form of another page has no own Origin"
        assert http.post("/subscriptions", json=body, headers=foreign).status_code == 403
        assert http.post("/subscriptions", json=body, headers={"origin": broker.url}).status_code == 201
        assert http.post("/login", json={"token": root}, headers=foreign).status_code == 403
        assert http.post("/logout").status_code == 204
        assert http.get("/session").status_code == 401


def test_a_session_ends_with_its_token(broker: BrokerProcess, root: str) -> None:
    bearer = {"authorization": f"Bearer {root}"}
    with (
        httpx.Client(base_url=broker.url, **PLAIN) as http,
        httpx.Client(base_url=broker.url, **PLAIN) as page,
    ):
        made = http.post("/tokens", json={"name": "eva", "scopes": ["subscribe"]}, headers=bearer).json()["token"]
        page.post("/login", json={"token": made})
        with page.stream("GET", "/live", timeout=30) as live:
            lines = live.iter_lines()
            assert next(lines) == "event: history"
            http.delete("/tokens/eva", headers=bearer)
            assert "event: end" in lines
        assert page.get("/session").status_code == 401


def test_a_token_with_rules_does_not_see_everybodys_rates(broker: BrokerProcess, root: str) -> None:
    bearer = {"authorization": f"Bearer {root}"}
    with httpx.Client(base_url=broker.url, **PLAIN) as http:
        asked = {"name": "seven", "scopes": ["subscribe"], "rules": {"data.tenant": 7}}
        made = http.post("/tokens", json=asked, headers=bearer).json()["token"]
        assert http.get("/live", headers={"authorization": f"Bearer {made}"}).status_code == 403
        http.delete("/tokens/seven", headers=bearer)


def test_the_page_loads_only_its_own_files(http: httpx.Client) -> None:
    page = http.get("/")
    assert page.headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'")
    for name in ("main.js", "page.css", "vendor/uplot@1.6.32.js", "bird.svg"):
        found = http.get(f"/page/{name}")
        assert found.status_code == 200
        assert http.get(f"/page/{name}", headers={"if-none-match": found.headers["etag"]}).status_code == 304
    for name in ("nothing.js", "../sessions.py", "%2e%2e/sessions.py", "..%2fsessions.py"):
        assert http.get(f"/page/{name}").status_code == 404


def test_the_oldest_session_ends_when_there_are_too_many() -> None:
    sessions, token = Sessions(), Token("root", "digest", "admin", "", "{}")
    first = sessions.begin(token)
    for _ in range(SESSIONS):
        last = sessions.begin(token)
    assert sessions.token(first, {"root": token}) is None
    assert sessions.token(last, {"root": token}) == token
    assert sessions.token(last, {"root": token._replace(digest="other")}) is None
    assert sessions.token(last, {"root": token}) is None
