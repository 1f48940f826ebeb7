"""Subject spaces: publications and subscriptions are regions that stay, and only transitions are notified.

subject_spaces                              the public class: its calls validate, journal, apply
validation                                  checks and encodes the arguments of calls
state                                       what a call does: change members, build notifications
space_definitions, interval                 spaces and their dimensions; constraints as users write them
dimension_domains, schema_domains, strings  how values become cuts, and back
members                                     the publications, or the subscriptions: keys, flags, regions
pair_matching                               which pairs begin to match when one side changes
dwell_subscriptions                         subscriptions with hysteresis or dwell
stored_pairs                                their pairs by key, for an owner who keeps them itself
notifications, contents                     what a call returns
journal, saved_state                        what is on disk
index                                       the regions of one role, and the searches in them
"""

from whimbrel.spaces.errors import (
    EmptyRegion,
    JournalError,
    KeyExists,
    KeyKindError,
    RegionError,
    SpaceConflict,
    SpaceOptionError,
    SpacesError,
    UnknownDimension,
    UnknownKey,
    UnknownSpace,
)
from whimbrel.spaces.interval import Interval
from whimbrel.spaces.notifications import Notification, Notifications
from whimbrel.spaces.space_definitions import Columns
from whimbrel.spaces.subject_spaces import SubjectSpaces

__all__ = [
    "Columns",
    "EmptyRegion",
    "Interval",
    "JournalError",
    "KeyExists",
    "KeyKindError",
    "Notification",
    "Notifications",
    "RegionError",
    "SpaceConflict",
    "SpaceOptionError",
    "SpacesError",
    "SubjectSpaces",
    "UnknownDimension",
    "UnknownKey",
    "UnknownSpace",
]
