"""The family at a glance: what each member is, where it comes from and what it supports, from its own docstrings."""

from __future__ import annotations

import inspect
import re
from dataclasses import asdict, dataclass, fields

from whimbrel.matchers import MATCHERS, BaseMatcher, Capabilities

_SECTION = re.compile(r"sections?\s+(\d[\d.]*(?:(?:\s*,\s*|\s+and\s+|-)\d[\d.]*)*)")
_DIGEST = re.compile(r"ALGORITHMS\.md,?\s+" + _SECTION.pattern)
_PAPER = re.compile(r"\[(Gryphon|Survey|Spaces|LeSub|Prefix)\]")


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """A member: its name, what it is, the papers and the section of ALGORITHMS.md, the constructs it takes or not.

    `remark` is a further limit, where a member's capabilities does not say all.
    """

    name: str
    summary: str
    papers: tuple[str, ...]
    section: str
    supports: tuple[str, ...]
    refuses: tuple[str, ...]
    remark: str = ""

    def to_dict(self) -> dict[str, object]:
        """The entry as JSON-ready data."""
        return asdict(self)

    @property
    def scope(self) -> str:
        """What it supports, in the shorter of two ways to say it."""
        if not self.refuses:
            text = "everything"
        elif len(self.refuses) < len(self.supports):
            text = f"all but {', '.join(self.refuses)}"
        else:
            text = ", ".join(self.supports)
        return f"{text}; {self.remark}" if self.remark else text


def catalogue() -> list[CatalogueEntry]:
    """Every member, in the order of the registry.

    >>> [(entry.section, entry.papers, entry.scope) for entry in catalogue() if entry.name == "naive"]
    [('1', ('Survey', 'LeSub'), 'everything')]
    """
    return [entry_of(name, member) for name, member in MATCHERS.items()]


def entry_of(name: str, member: type[BaseMatcher]) -> CatalogueEntry:
    """What a member's docstrings and capabilities say."""
    module = inspect.getdoc(inspect.getmodule(member)) or ""
    text = f"{module}\n{inspect.getdoc(member) or ''}"
    found = _DIGEST.search(text)
    supports = tuple(member.capabilities.summary())
    refuses = tuple(field.name for field in fields(Capabilities) if field.name not in supports)
    papers = tuple(dict.fromkeys(_PAPER.findall(text)))
    summary, section, remark = module.partition("\n")[0], found[1] if found else "", getattr(member, "remark", "")
    return CatalogueEntry(name, summary, papers, section, supports, refuses, remark)
