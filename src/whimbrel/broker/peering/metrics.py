"""The Prometheus metrics of links and of the router."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from whimbrel.broker.peering.peering import Peering

_LINK_COUNTS = {
    "whimbrel_link_events_in": ("Events that came over a link and were new.", "events_in"),
    "whimbrel_link_events_out": ("Events that were sent over a link.", "events_out"),
    "whimbrel_link_repeated_events": ("Events that came again over a link.", "repeated_events"),
    "whimbrel_link_refused_events": ("Events of a peer that were refused.", "refused_events"),
    "whimbrel_link_refused_prefixes": ("Prefixes of a peer that were too large.", "refused_prefixes"),
    "whimbrel_link_refused_messages": ("Messages of a peer that ended its connection.", "refused_messages"),
    "whimbrel_link_missed_entries": ("Entries that were deleted before a peer had them.", "missed"),
    "whimbrel_link_connects": ("Times that a link was connected.", "connects"),
}
_ROUTER_COUNTS = {
    "whimbrel_router_content_matches": ("Events that were matched on the routing tree.", "content_matches"),
    "whimbrel_router_fallbacks": ("Events whose prefix could not be used.", "fallbacks"),
    "whimbrel_router_malformed": ("Prefixes and trees that were refused.", "malformed"),
    "whimbrel_router_false_positives": ("Events that came over a link in vain.", "false_positives"),
    "whimbrel_router_filter_messages": ("Filters that were sent to peers.", "filter_messages"),
    "whimbrel_router_suppressed_filters": ("Filters that others cover, which were not sent.", "suppressed_filters"),
    "whimbrel_router_tree_updates": ("Versions of the tree that were published here.", "tree_updates"),
}


class OverlayCollector(Collector):
    """Reads the counts of links and of the router. Links are labelled by the name of the peer."""

    def __init__(self, peering: Peering) -> None:
        self._peering = peering

    def collect(self) -> Iterable[Metric]:
        """Read the present counts."""
        peering = self._peering
        links = list(peering.links.values())
        yield CounterMetricFamily(
            "whimbrel_refused_peers", "Peers that were refused: no token, another protocol, a cycle.",
            value=peering.refused_peers,
        )  # fmt: skip
        for name, (text, field) in _LINK_COUNTS.items():
            family = CounterMetricFamily(name, text, labels=["peer"])
            for link in links:
                family.add_metric([link.label or link.name], getattr(link, field))
            yield family
        connected = GaugeMetricFamily("whimbrel_link_connected", "Whether a link is connected.", labels=["peer"])
        lag = GaugeMetricFamily("whimbrel_link_lag_entries", "Entries that a peer has not passed.", labels=["peer"])
        for link in links:
            connected.add_metric([link.label or link.name], link.peer in peering.sessions)
            if link.cursor is not None:
                lag.add_metric([link.label or link.name], max(0, peering.log.end - link.cursor))
        yield connected
        yield lag
        if peering.router is not None:
            counters = peering.router.router.counters
            for name, (text, field) in _ROUTER_COUNTS.items():
                yield CounterMetricFamily(name, text, value=getattr(counters, field))
            refused = counters.refused_filters + peering.router.refused_filters
            yield CounterMetricFamily("whimbrel_router_refused_filters", "Filters that were refused.", value=refused)
