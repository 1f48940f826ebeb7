"""Links between brokers: filters travel over them, and events follow by prefix.

wire            what brokers tell each other, as bytes
feed            the entries of the log as events to forward
routing         the router of a broker: subscriptions, filters of peers and entries in, messages out
router_thread   the thread that it runs in
regions         what lies behind which peer, and which link would close a cycle
link            what is known of one link
peering         all links of a broker
handshake       the first messages of a connection
session         one connection to a peer, from welcome to its end
dialer          opens connections to a peer, again and again
connector       who may be linked
tracing         explains a route, hop by hop
status          what a broker tells of its links
metrics         what Prometheus is told
"""
