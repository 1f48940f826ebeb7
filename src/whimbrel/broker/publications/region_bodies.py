"""Regions of subject spaces as JSON, {"regions": [{"x": "[0, 10)"}]}, and what rules of tokens mean for them."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from whimbrel.broker.requests.errors import Forbidden, TooLarge, Unprocessable, decode_body
from whimbrel.model.token_rules import Rules

Regions = list[dict[str, Any]]


class RegionsBody(msgspec.Struct, forbid_unknown_fields=True):
    """A publication of a space: its regions, each from dimensions to constraints."""

    regions: Annotated[Regions, msgspec.Meta(min_length=1)]


class RegionPatch(msgspec.Struct, forbid_unknown_fields=True):
    """A change of one region, the only one or that at the place `region`; null removes a constraint."""

    change: dict[str, Any]
    region: Annotated[int, msgspec.Meta(ge=0)] | None = None


def read_regions(content: bytes, limit: int) -> Regions:
    """The regions of a body; Unprocessable if it has none, TooLarge if there are more than `limit`."""
    regions = decode_body(content, RegionsBody, "invalid-region").regions
    if len(regions) > limit:
        raise TooLarge(f"Expected at most {limit:,} regions, but got {len(regions):,}")
    return regions


def patched(regions: Regions, content: bytes) -> Regions:
    """The regions after a patch; Unprocessable if it does not fit.

    >>> patched([{"x": 1, "y": 2}], b'{"change": {"x": null, "y": "[0, 5]"}}')
    [{'y': '[0, 5]'}]
    """
    patch = decode_body(content, RegionPatch, "invalid-region")
    place = patch.region
    if place is None and len(regions) != 1:
        raise Unprocessable("Expected the place of one region, as there are several - at $.region", "invalid-region")
    if place is not None and place >= len(regions):
        found = f"but there are {len(regions)}"
        raise Unprocessable(f"Expected the place of a region, {found} - at $.region", "invalid-region")
    changed = [dict(region) for region in regions]
    region = changed[place or 0]
    for name, value in patch.change.items():
        if value is None:
            region.pop(name, None)
        else:
            region[name] = value
    return changed


def constrained(regions: Regions, rules: Rules) -> Regions:
    """Regions with the point that each rule asks for; Forbidden if one of them says something else."""
    for region in regions if rules else ():
        for name, value in rules.items():
            if name in region and not _is_point(region[name], value):
                raise Forbidden(f"Expected {name} = {value!r} in every region, as the token's rules say")
    return [{**region, **rules} for region in regions] if rules else regions


def allows_regions(rules: Rules, content: bytes) -> bool:
    """Whether every region is at the point that each rule asks for."""
    if not rules:
        return True
    regions = msgspec.json.decode(content, type=RegionsBody).regions
    return all(name in region and _is_point(region[name], value) for region in regions for name, value in rules.items())


def _is_point(found: object, value: object) -> bool:
    return type(found) is type(value) and found == value
