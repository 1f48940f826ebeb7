"""The texts that every match of a regular expression contains."""

from __future__ import annotations

import re

_SIMPLE = re.compile(
    r"""(?P<escaped>\\[^A-Za-z0-9])      # a sign by itself
      | (?P<class>\\[dDwWsSbBAznrtfva])  # one character, or a place
      | (?P<set>\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\])
      | (?P<again>[*+?]|\{\d+(?:,\d*)?\})
      | (?P<open>\((?:\?(?::|P?<\w+>)|(?!\?)))
      | (?P<close>\))
      | (?P<place>[\^$.])
      | (?P<letter>[^\\\[\](){}*+?|^$.])""",
    re.VERBOSE | re.DOTALL,
)


def regex_fragments(regex: str) -> list[list[str]]:
    """For each alternative of a regular expression, texts that every match contains; none where that is hard to tell.

    >>> regex_fragments(r"^GET /api/v\\d+/orders\\?id=(\\d+|none)$|POST")
    [['GET /api/v', '/orders?id='], ['POST']]
    """
    alternatives = [[""]]
    at = depth = 0
    while at < len(regex):
        fragments = alternatives[-1]
        if regex[at] == "|":
            if depth == 0:
                alternatives.append([""])
            at += 1
            continue
        found = _SIMPLE.match(regex, at)
        if found is None:  # flags, a quotation, a class of characters by name, ...
            return [[]]
        kind, text = found.lastgroup, found[0]
        at = found.end()
        depth += (kind == "open") - (kind == "close")
        if depth > 0 or kind == "close":  # what is in parentheses may be one of several, or left out
            fragments.append("")
        elif kind in ("letter", "escaped"):
            fragments[-1] += text[-1]
        else:
            if kind == "again" and text != "+":
                fragments[-1] = fragments[-1][:-1]
            fragments.append("")
    return [[fragment for fragment in fragments if fragment] for fragments in alternatives]
