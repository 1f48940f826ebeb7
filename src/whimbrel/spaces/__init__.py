"""State-persistent matching: subject spaces, in which publications stay and only transitions are told."""

from whimbrel.spaces.columns import Columns
from whimbrel.spaces.errors import (
    DuplicateKey,
    EmptyRegion,
    JournalError,
    KeyKindError,
    OptionError,
    RegionError,
    SpaceConflict,
    SpacesError,
    UnknownDimension,
    UnknownKey,
    UnknownSpace,
)
from whimbrel.spaces.intervals import Interval
from whimbrel.spaces.notices import Notification, Notifications
from whimbrel.spaces.spaces import SubjectSpaces

__all__ = [
    "Columns",
    "DuplicateKey",
    "EmptyRegion",
    "Interval",
    "JournalError",
    "KeyKindError",
    "Notification",
    "Notifications",
    "OptionError",
    "RegionError",
    "SpaceConflict",
    "SpacesError",
    "SubjectSpaces",
    "UnknownDimension",
    "UnknownKey",
    "UnknownSpace",
]
