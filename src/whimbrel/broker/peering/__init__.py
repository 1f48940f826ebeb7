"""Links between brokers: filters travel over them, and events follow by prefix.

wire        what brokers tell each other, as bytes
feed        the entries of the log as events to forward
routing     the router of a broker, in a thread of its own
books       what the broker keeps of its links: cursors, filters of peers, what lies behind them
session     one connection to a peer, from hello to its end
dialer      connects to a peer, again and again
peering     all links of a broker
"""
