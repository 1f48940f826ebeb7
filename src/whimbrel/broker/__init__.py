"""The broker: publish, subscribe, deliver, lose nothing. One process owns a data directory and serves it over HTTP."""

from importlib.util import find_spec

from whimbrel.model.errors import MissingExtra

for _package, _name in (("starlette", "starlette"), ("uvicorn", "uvicorn"), ("prometheus_client", "prometheus-client")):
    if find_spec(_package) is None:
        raise MissingExtra(_name, "broker")
