"""Links between brokers: filters travel over them, and events follow by prefix.

wire        what brokers tell each other, as bytes
feed        the entries of the log as events to forward
routing     the router of a broker, in a thread of its own
regions     what lies behind which peer, and which link would close a cycle
link        what is known of one link
session     one connection to a peer, from hello to its end
dialer      connects to a peer, again and again
peering     all links of a broker
status      what a broker tells of its links
"""
