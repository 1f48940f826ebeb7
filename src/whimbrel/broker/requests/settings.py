"""The settings of a broker: flags, then environment variables, then a TOML file, then these defaults."""

from __future__ import annotations

import ipaddress
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from whimbrel.model.errors import WrongUsage

PREFIX = "WHIMBREL_"
"""Environment variables are WHIMBREL_PORT, WHIMBREL_DATA and so on."""


Count: TypeAlias = Annotated[int, msgspec.Meta(ge=1)]
Rate: TypeAlias = Annotated[float, msgspec.Meta(ge=0)]
Seconds: TypeAlias = Annotated[float, msgspec.Meta(gt=0)]
STANDARD_SCHEDULE = (0, 5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400)
"""Seconds before each attempt, of Standard Webhooks."""


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Everything that can be set. Sizes are bytes, times are seconds."""

    data: str = "whimbrel-data"
    """The directory of the log and of all that follows from it."""
    host: str = "127.0.0.1"
    """The address to listen on. Any other than loopback needs tokens."""
    port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 8080
    engine: Literal["inline", "spark"] = "inline"
    """Who matches events: the broker when they come, or soon after a job on Spark."""
    spark_job: bool = True
    """Whether the broker starts that job itself; if not, `whimbrel pipeline broker` runs elsewhere."""
    spark_master: str | None = None
    """Where the job runs; by default on all cores of this machine."""
    spark_settings: list[str] = []
    """Settings of Spark for the job, each as NAME=VALUE."""
    tls_certificate: str | None = None
    tls_key: str | None = None
    timestamps: list[str] = []
    """Attributes whose texts are timestamps."""
    schema: str | None = None
    """A file with a schema, by which filters and events are checked."""
    cors_origins: list[str] = []
    """Origins of web pages that may call; none by default."""
    body_bytes: Count = 16 << 20
    """A request's body, at most."""
    bodies_bytes: Count = 256 << 20
    """The bodies of all requests, and results of JSON lines, at one time, at most; more are refused with 503."""
    requests_per_second: Rate = 0.0
    """Requests of one principal; 0 for no limit."""
    events_per_second: Rate = 0.0
    """Events that one principal publishes; 0 for no limit."""
    subscriptions_per_token: Count = 2_000_000
    filter_nanoseconds: Rate = 0.0
    """What one filter may cost an event, as `Index.cost` estimates it; 0 for no limit."""
    token_nanoseconds: Rate = 10_000_000.0
    """What all filters of one token may cost an event together; 0 for no limit."""
    publications_per_tenant: Count = 1_000_000
    """Publications of one tenant; all are in memory."""
    publication_bytes_per_tenant: Count = 1 << 30
    """The states of all publications of one tenant."""
    spaces_per_tenant: Count = 100
    """Subject spaces of one tenant."""
    dimensions_per_space: Count = 100
    regions_per_object: Count = 100
    """Regions of one publication or subscription in a space."""
    connections: Count = 10_000
    """Open requests and streams, at most; more are refused with 429."""
    connections_per_token: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Open requests and streams of one principal; 0 for no limit of its own."""
    heartbeat: Seconds = 15.0
    """A stream without messages gets a comment, so that both sides notice when the other is gone."""
    head_seconds: Seconds = 10.0
    """How long a client may take to send the head of a request."""
    dead_letters: Count = 10_000
    """Refused events that are kept."""
    log: Literal["text", "json"] = "text"
    """The form of what is logged to standard error."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """What is logged: this and what is worse."""
    access_log: bool = False
    """Whether every request is logged."""
    disk_reserve_bytes: Annotated[int, msgspec.Meta(ge=0)] = 0
    """What is kept free on the disk: below that, events are refused. 0 for 64 MiB or 1 %, whichever is more."""
    retention_seconds: Rate = 7 * 86_400.0
    """How long entries of the log are kept; 0 for ever."""
    retention_bytes: Annotated[int, msgspec.Meta(ge=0)] = 10_000_000_000
    """How large the log may become, about; the oldest entries are deleted. 0 for no limit."""
    name: str = ""
    """What peers and people call this broker; host and port if it is empty."""
    peers: list[str] = []
    """URLs of brokers to link with."""
    peer_tokens: list[str] = []
    """The token to show to each of `peers`, or one for all of them."""
    peer_ca: str | None = None
    """A file of certificates (PEM) to trust for peers with https, instead of those that the system trusts."""
    peer_filters: Count = 1_000_000
    """Filters that one peer may want; more are refused, and their events not sent."""
    optimizer: bool = False
    """Whether this broker keeps the routing tree of the overlay. One should."""
    optimizer_seconds: Seconds = 5.0
    """How long changes of the routing tree may wait before a version is published."""
    match_every_hop: bool = False
    """Match events at every broker instead of reading prefixes, to compare."""
    public_url: str | None = None
    """Where receivers of webhooks reach this broker, for their consent."""
    webhook_origin: str = ""
    """The name by which receivers know this broker; the name of the host by default."""
    webhook_networks: list[str] = []
    """Networks that webhooks may go to although their addresses are not global, such as 127.0.0.0/8."""
    webhook_schedule: Annotated[list[Rate], msgspec.Meta(min_length=1, max_length=100)] = msgspec.field(
        default_factory=lambda: list(STANDARD_SCHEDULE)
    )
    """Seconds before each attempt of a delivery, as Standard Webhooks say; then its subscription is disabled."""
    webhook_seconds: Seconds = 15.0
    """How long a receiver may take to answer."""
    webhook_ca: str | None = None
    """A file of certificates (PEM) that webhooks trust, instead of those that the system trusts."""

    def tokens_of_peers(self) -> list[str]:
        """The token for each of the peers."""
        return self.peer_tokens if len(self.peer_tokens) != 1 else self.peer_tokens * len(self.peers)


_LISTS = frozenset(name for name, value in msgspec.structs.asdict(Settings()).items() if isinstance(value, list))
"""Settings that an environment variable gives with commas."""


class BadSettings(WrongUsage):
    """A setting that does not exist or has a wrong value."""


def load_settings(
    flags: Mapping[str, object] | None = None,
    environment: Mapping[str, str] | None = None,
    file: str | Path | None = None,
) -> Settings:
    """The settings of all sources; a flag of None was not given."""
    chosen: dict[str, Any] = {}
    if file is not None:
        try:
            chosen |= tomllib.loads(Path(file).read_text())
        except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise BadSettings(f"Expected a TOML file of settings, but got: {error} - at {file}") from None
    for name, value in (os.environ if environment is None else environment).items():
        field = name.removeprefix(PREFIX).lower()
        if name.startswith(PREFIX) and field in Settings.__struct_fields__:
            chosen[field] = [part for part in value.split(",") if part] if field in _LISTS else value
    chosen |= {name: value for name, value in (flags or {}).items() if value is not None}
    try:
        settings = msgspec.convert(chosen, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise BadSettings(f"{error} (in the settings)") from None
    _check(settings)
    return settings


def _check(settings: Settings) -> None:
    """Raise BadSettings where settings contradict each other, or are no URL or network."""
    if (settings.tls_certificate is None) != (settings.tls_key is None):
        raise BadSettings("Expected both tls_certificate and tls_key, or neither of them (in the settings)")
    if len(settings.tokens_of_peers()) != len(settings.peers):
        raise BadSettings(
            f"Expected one of peer_tokens for each of {len(settings.peers)} peers, or one for all, but got"
            f" {len(settings.peer_tokens)} (in the settings)"
        )
    for url in settings.peers:
        if not re.fullmatch(r"https?://[^/?#\s]+/?", url):
            raise BadSettings(f"Expected the address of a peer such as http://host:8080, but got {url!r}")
    for network in settings.webhook_networks:
        try:
            ipaddress.ip_network(network)
        except ValueError as error:
            raise BadSettings(f"Expected networks such as 10.0.0.0/8, but: {error} - at webhook_networks") from None


def with_set(pairs: Iterable[str]) -> dict[str, str]:
    """The environment with settings given as NAME=VALUE in it."""
    environment = dict(os.environ)
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or name not in Settings.__struct_fields__:
            raise BadSettings(f"Expected NAME=VALUE with the name of a setting, but got {pair[:80]!r}")
        environment[PREFIX + name.upper()] = value
    return environment


def to_toml(settings: Settings) -> str:
    """All settings as a file that `load_settings` takes. A setting that is not set is a comment."""
    lines = []
    for name, value in msgspec.structs.asdict(settings).items():
        lines.append(f"# {name} =" if value is None else f"{name} = {msgspec.json.encode(value).decode()}")
    return "\n".join(lines) + "\n"


def is_loopback(name: str) -> bool:
    """Whether a host name can only mean this machine."""
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
