"""Subject spaces: publications and subscriptions are regions that stay, and only transitions are notified.

subject_spaces  the public class: its calls validate, journal, apply
disk/           the journal, and saved files
state/          what a call does: check its arguments, change members, build notifications
dimensions/     spaces and their dimensions: how values become cuts, and back
index/          the regions of one role, and the searches in them
"""

from whimbrel.spaces.dimensions.errors import (
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
from whimbrel.spaces.dimensions.interval import Interval
from whimbrel.spaces.dimensions.space_definitions import Columns
from whimbrel.spaces.state.notifications import Notification, Notifications
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
