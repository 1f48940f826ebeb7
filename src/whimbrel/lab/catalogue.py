"""The matchers at a glance: what each is, the paper that it comes from, and what it supports."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, fields

from whimbrel.matchers import MATCHERS, BaseMatcher, Capabilities


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """A matcher: its name, what it is, its paper and the place in it, the constructs that it takes or not.

    `remark` is a further limit, where the capabilities do not say all.
    """

    name: str
    summary: str
    papers: tuple[str, ...]
    section: str
    supports: tuple[str, ...]
    refuses: tuple[str, ...]
    remark: str = ""

    @property
    def scope(self) -> str:
        """The constructs that it supports, or those that it does not, whichever list is shorter."""
        if not self.refuses:
            text = "everything"
        elif len(self.refuses) < len(self.supports):
            text = f"all but {', '.join(self.refuses)}"
        else:
            text = ", ".join(self.supports)
        return f"{text}; {self.remark}" if self.remark else text


def catalogue() -> list[CatalogueEntry]:
    """Every matcher, in the order of the registry.

    >>> [(entry.section, entry.papers, entry.scope) for entry in catalogue() if entry.name == "naive"]
    [('Figure 5; Figure 1 of Le Subscribe', ('Survey',), 'everything')]
    """
    return [_entry(name, matcher) for name, matcher in MATCHERS.items()]


def _entry(name: str, matcher: type[BaseMatcher]) -> CatalogueEntry:
    """The entry of a matcher; its summary is the first line of its docstring."""
    summary = (inspect.getdoc(matcher) or "").partition("\n")[0]
    supports = tuple(matcher.capabilities.summary())
    refuses = tuple(field.name for field in fields(Capabilities) if field.name not in supports)
    remark = getattr(matcher, "remark", "")
    return CatalogueEntry(name, summary, (matcher.paper.short,), matcher.section, supports, refuses, remark)
