"""How messages reach subscribers: read from the lists and the log, or pushed to streams as they come.

message_reader  the messages of a subscription, behind a cursor
history         matches among events that are older than their subscription
hub, outbox     which streams are open; what waits for each, as bytes and bounded
streaming       follows a stream: first the log, then what is pushed
digests         one message with all that matched in a window
"""
