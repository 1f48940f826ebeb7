"""Events and changes in one order: groups, matching, offsets.

sequencer      the thread that decides requests and appends them to the log, group by group
request_group  requests, and the groups in which they become durable
publishing     recognises repeats, matches events, gives offsets
watermark      how far events are matched, where another engine matches them later
"""
