"""Routers: what they keep, the messages between them, and how they route an event.

router_messages  the messages between routers
offers           what a neighbour was told, and which filters need not be told
router           what all routers do: keep filters, tell neighbours, deliver, count
prefix_router    routes by prefix
view             a version of the tree as one router sees it
optimizer        decides what the tree is, and when a version of it is published
baselines        routing as SIENA does, and flooding
trace            explains the route of an event
"""
