"""Links between brokers: filters travel over them, and events follow by prefix.

wire             the messages between brokers, and their bytes
link             what a broker knows of one link, connected or not
peering          all links of a broker: what peers are told, and what comes from them
connector        decides who may be linked, and runs the connections
dialer           opens connections to a peer, again and again
link_session     one connection to a peer, from the handshake to its end
log_feed         reads the log as events to forward
routing          the router of a broker: subscriptions, filters of peers and events in, messages out
router_thread    the thread that the router runs in
overlay_regions  which brokers lie behind which peer, and which link would close a cycle
route_tracing    explains the route of an event, hop by hop
status           the links as JSON and as a picture
metrics          the links as Prometheus metrics
"""
