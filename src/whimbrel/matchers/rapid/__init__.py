"""RAPIDMatch and Modified RAPIDMatch: forests of trees over binary properties."""

from whimbrel.matchers.rapid.modified_rapid import ModifiedRapid
from whimbrel.matchers.rapid.rapid import Rapid

__all__ = ["ModifiedRapid", "Rapid"]
