"""The advisor measures what takes the sample, lists the rest with reasons, and recommends what it measured."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from whimbrel.lab import advisor
from whimbrel.lab.advisor import Advice, NothingToAdvise, advise, features_of
from whimbrel.lab.catalogue import catalogue
from whimbrel.lab.workloads import make as make_workload
from whimbrel.matchers import MATCHERS
from whimbrel.matchers.naive import Naive
from whimbrel.model.event import Event
from whimbrel.model.filter import Filter
from whimbrel.model.subscription import Id


def sample(name: str, n: int = 300, events: int = 30) -> tuple[list[tuple[Id, Filter]], list[dict[str, object]]]:
    workload = make_workload(name, n=n, events=events)
    rows = workload.subscriptions.to_pylist()
    held = [{k: v for k, v in row.items() if v is not None} for row in workload.events.to_pylist()]
    return [(row["id"], Filter.parse(row["filter"])) for row in rows], held


def outcomes(advice: Advice) -> dict[str, str]:
    return {found.matcher: found.outcome for found in advice.measurements}


def test_on_gryphon_it_recommends_an_index_and_not_the_reference() -> None:
    advice = advise(*sample("gryphon"), seconds=20)
    found = outcomes(advice)
    assert found.keys() == MATCHERS.keys()
    assert "wrong" not in found.values()
    assert advice.recommended is not None and advice.recommended != "naive"
    assert found[advice.recommended] == "measured"
    assert advice.features.constructs == {"equality": 1.0}
    assert any("equalities" in reason for reason in advice.why)


def test_on_lesubscribe_what_knows_only_equality_is_refused_with_the_reason() -> None:
    advice = advise(*sample("lesubscribe"), seconds=20)
    found = {measurement.matcher: measurement for measurement in advice.measurements}
    assert "wrong" not in outcomes(advice).values()
    assert advice.recommended not in (None, "naive", "rapid", "modified_rapid")
    for matcher in ("rapid", "modified_rapid"):
        assert found[matcher].outcome == "refused"
        assert "of 300 subscriptions; the first: Matcher" in found[matcher].reason
        assert matcher in advice.text
    for matcher in ("naive", "hanson", "sgim"):
        assert found[matcher].outcome == "measured"
        assert found[matcher].median_us and found[matcher].build_seconds and found[matcher].events


def test_an_event_that_a_matcher_refuses_is_a_reason_too() -> None:
    class Scalar(Naive):
        name = "scalar"

    MATCHERS["scalar"] = Scalar
    Scalar.capabilities = type(Naive.capabilities)(lists=False)
    try:
        advice = advise([(1, Filter.parse("a = 1"))], [{"a": [1, 2]}], seconds=1, matchers=["scalar"])
    finally:
        del MATCHERS["scalar"]
    assert outcomes(advice) == {"naive": "measured", "scalar": "refused"}
    assert "several values of an attribute" in advice.measurements[1].reason
    assert advice.recommended == "naive"


def test_a_matcher_that_answers_wrongly_is_not_recommended() -> None:
    class Forgetful(Naive):
        name = "forgetful"

        def _search(self, event: Event) -> object:  # type: ignore[override]
            return ()

    MATCHERS["forgetful"] = Forgetful
    try:
        advice = advise([(1, Filter.parse("a = 1"))], [{"a": 1}], seconds=1, matchers=["forgetful"])
    finally:
        del MATCHERS["forgetful"]
    assert outcomes(advice) == {"naive": "measured", "forgetful": "wrong"}
    assert advice.recommended == "naive"
    assert "found 0 subscriptions and the reference 1" in advice.text


def test_a_matcher_that_is_still_building_when_its_time_is_up_is_too_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advisor, "_STEP", 1)
    advice = advise(*sample("lesubscribe", n=50), seconds=0, matchers=["sgim"])
    assert set(outcomes(advice).values()) == {"too slow"}
    assert advice.recommended is None and "none" in advice.text


def test_a_recommendation_without_answers_to_compare_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    filled = advisor._Trial._filled
    monkeypatch.setattr(advisor._Trial, "_filled", lambda *given: None if given[1] == "naive" else filled(*given))
    advice = advise(*sample("lesubscribe", n=50), seconds=5, matchers=["hanson"])
    assert outcomes(advice) == {"naive": "too slow", "hanson": "measured"}
    assert advice.recommended == "hanson" and "No answers were compared" in advice.text


def test_nothing_to_measure_is_a_typed_error() -> None:
    for subscriptions, events in (([], [{"a": 1}]), ([(1, Filter.parse("a = 1"))], [])):
        with pytest.raises(NothingToAdvise):
            advise(subscriptions, events)


def test_progress_names_every_matcher_and_ends_at_one() -> None:
    seen: list[tuple[str, float]] = []
    advise(
        [(1, Filter.parse("a = 1"))],
        [{"a": 1}],
        seconds=1,
        matchers=["hanson"],
        progress=lambda matcher, share: seen.append((matcher, share)),
    )
    assert seen == [("naive", 0.0), ("hanson", 0.5), ("", 1.0)]


def test_advice_is_json() -> None:
    advice = advise([(1, Filter.parse("a = 1"))], [{"a": 1}], seconds=1, matchers=["naive"])
    assert json.loads(json.dumps(asdict(advice)))["recommended"] == "naive"


def test_features_tell_constructs_lists_and_matches() -> None:
    filters = [Filter.parse("a < 5 AND b LIKE '%x'"), Filter.parse("a < b")]
    features = features_of(filters, [Event({"a": [1, 2]}), Event({"a": 1, "b": 2})], 1.5)
    assert set(features.constructs) == {"ranges", "patterns", "links"}
    assert (features.attributes, features.attributes_per_event, features.events_with_lists) == (2, 1.5, 0.5)
    assert "No constraint is an equality" in " ".join(features.remarks)
    assert "1.5 matches per event" in features.sentence


def test_the_catalogue_has_the_section_of_every_matcher() -> None:
    entries = {entry.name: entry for entry in catalogue()}
    assert entries.keys() == MATCHERS.keys()
    sections = {"modified_rapid": "III.D", "sgim": "III.E", "fair_predicate": "Figure 2", "hanson": "Figure 6"}
    assert {name: entries[name].section for name in sections} == sections
    assert all(entry.section and entry.papers and entry.summary for entry in entries.values())
    assert entries["rapid"].scope.endswith("equality with 0, 1, FALSE and TRUE only")
