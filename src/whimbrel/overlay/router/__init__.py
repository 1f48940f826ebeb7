"""Routers: what they keep, what they tell each other, and how they route an event.

messages        what routers tell each other
router          what all of them do: filters, neighbours, delivery
prefix_router   routing by prefix
view            a version of the tree as one router sees it
optimizer       the one that decides what the tree is
baselines       routing as SIENA does, and flooding
counters        what a router counts
trace           why an event goes where it goes
"""
