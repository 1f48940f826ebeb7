"""Brokers together: filters travel, an event is matched once and follows the prefix that the match gave it.

tree/         the routing tree, its versions, prefixes
covering/     which filters cover which, SIENA's poset
router/       what a router does, without I/O, clock or randomness
topology      which routers are linked
picture       routers and links, drawn
simulation/   routers in simulated time, and the experiments of the paper
"""
