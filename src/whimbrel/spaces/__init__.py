"""Subject spaces: publications and subscriptions are regions that stay, and only transitions are notified.

`SubjectSpaces` is the public class. `index` holds the regions of one role and searches them.
"""

from whimbrel.spaces.columns import Columns
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
from whimbrel.spaces.intervals import Interval
from whimbrel.spaces.notifications import Notification, Notifications
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
