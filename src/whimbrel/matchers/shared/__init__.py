"""What the algorithms share; none of these modules is one.

base                         what a matcher need not do itself: ids, order, equal filters, errors
capabilities, option_checks  which constructs a matcher supports; checks of its name and options
papers, checks               the papers in full; the conformance checks that every matcher runs
frozen, bulk                 arrays compiled from all conjunctions; subscriptions kept as columns
conjunction_rows, runs       conjunctions as flat arrays of rank intervals
event_ranks                  events as ranks: a block of them, or one by one
event_types                  several event types, each with a structure or with names of its own
"""
