"""Webhooks: messages that the broker sends to the sinks of subscriptions, in a thread of their own.

engine                   the thread: wakes channels and gives them their turns
channel, target          a subscription that has something to deliver, now or at a moment; where and how
delivering, planning     one turn of a channel; which messages its next request has
outgoing                 the request as bytes, signed
consent, retries         whether a receiver consents; when a delivery is tried again
host_queues              which channel is served next, so that hosts take turns
http_client, connection  sends requests over kept connections
addresses                resolves names, and checks where webhooks may go
records                  what deliveries change, stored every few milliseconds
watched                  which subscriptions have something to deliver, at a start and when events match
"""
