"""The live page of a broker.

live_feed  what the broker does now, once a second: rates, percentiles, matched events
sessions   browsers that are logged in
static/    the files that a browser loads
"""
