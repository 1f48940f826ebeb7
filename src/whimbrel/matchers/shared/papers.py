"""The five papers that the algorithms come from, in full.

Every matcher names its paper and the place in it. docs/papers.md says what the papers' algorithms do and lists the
corrections by their codes (ERR for an error of the paper, AMB for something that it leaves open).
"""

from __future__ import annotations

from enum import Enum


class Paper(Enum):
    """A paper: short name, authors, title, and where and when it appeared."""

    GRYPHON = (
        "Gryphon",
        "M. K. Aguilera, R. E. Strom, D. C. Sturman, M. Astley, T. D. Chandra",
        "Matching Events in a Content-based Subscription System",
        "PODC 1999",
    )
    SURVEY = (
        "Survey",
        "",
        "a survey of naive matching, TreeMatch, RAPIDMatch, Modified RAPIDMatch and SGIM",
        "",
    )
    SPACES = (
        "Spaces",
        "H. K. Y. Leung, H.-A. Jacobsen",
        "Efficient Matching for State-persistent Publish/Subscribe Systems",
        "CASCON 2003",
    )
    LE_SUBSCRIBE = (
        "LeSub",
        "F. Fabret, F. Llirbat, J. Pereira, D. Shasha",
        "Efficient Matching for Content-based Publish/Subscribe Systems",
        "INRIA, 2000",
    )
    PREFIX = (
        "Prefix",
        "Z. Jerzak, C. Fetzer",
        "Prefix Forwarding for Publish/Subscribe",
        "DEBS 2007",
    )

    def __init__(self, short: str, authors: str, title: str, published: str) -> None:
        self.short = short
        self.authors = authors
        self.title = title
        self.published = published

    def __str__(self) -> str:
        return ", ".join(part for part in (self.authors, self.title, self.published) if part)
