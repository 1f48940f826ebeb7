"""What subject spaces hold, and what a call does to it.

validation           checks and encodes the arguments of calls
space_state          changes members, and builds the notifications
members              the publications, or the subscriptions: keys, flags, regions
pair_matching        which pairs begin to match when one side changes
dwell_subscriptions  subscriptions with hysteresis or dwell
stored_pairs         their pairs by key, for an owner who keeps them itself
notifications        what a call returns
contents             the regions that publications had when a call returned
"""
