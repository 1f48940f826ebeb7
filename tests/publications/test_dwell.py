"""The memory of pairs, beside a model that keeps a plain dict."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from whimbrel.publications.dwell import DwellPairs

DWELL = {"now": 0.0, "soon": 2.0, "late": 5.0}
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["enter", "stay", "exit", "delete", "expire", "expire_one", "save"]),
        st.sampled_from(sorted(DWELL)),
        st.integers(0, 3),
        st.integers(0, 3),
    ),
    max_size=60,
)


def _new() -> DwellPairs[str, int]:
    pairs: DwellPairs[str, int] = DwellPairs()
    for subscription, dwell in DWELL.items():
        pairs.add(subscription, dwell)
    return pairs


@given(STEPS)
def test_pairs_leave_when_they_were_out_for_their_dwell(steps: list[tuple[str, str, int, int]]) -> None:
    pairs, model, now = _new(), dict[tuple[str, int], float | None](), 0.0
    for step, subscription, publication, wait in steps:
        now += wait
        pair = subscription, publication
        if step == "enter":
            assert pairs.enter(*pair) == (pair not in model)
            model[pair] = None
        elif step == "stay":
            pairs.stay(*pair)
            if pair in model:
                model[pair] = None
        elif step == "exit":
            leaves = False
            if pair in model and model[pair] is None:
                model[pair] = now + DWELL[subscription]
                leaves = not DWELL[subscription]
            if leaves:
                del model[pair]
            assert pairs.exit(*pair, now) == leaves
        elif step == "delete":
            found = [one for one in model if one[1] == publication]
            assert sorted(pairs.delete(publication)) == sorted(one for one, _ in found)
            for one in found:
                del model[one]
        elif step == "expire":
            due = sorted((time, *one) for one, time in model.items() if time is not None and time <= now)
            assert pairs.expire(now) == [(subscription, publication) for _, subscription, publication in due]
            for _, left, key in due:
                del model[left, key]
        elif step == "expire_one":
            time = model.get(pair)
            is_due = time is not None and time <= now
            assert pairs.expire_one(*pair, now) == is_due
            if is_due:
                del model[pair]
        else:
            saved, pairs = list(pairs), _new()
            pairs.restore([*saved, ("nobody", 1, None)])
        pairs._check()
        assert {(s, p): due for s, p, due in pairs} == model
        assert pairs.next_due == min((due for due in model.values() if due is not None), default=None)


def test_a_subscription_that_is_removed_takes_its_pairs_along() -> None:
    pairs = _new()
    pairs.enter("soon", 1)
    pairs.exit("soon", 1, 0.0)
    assert (pairs.next_due, pairs.containing(1), dict(pairs.inside("soon"))) == (2.0, ["soon"], {1: 2.0})
    pairs.remove("soon")
    assert (pairs.next_due, pairs.containing(1), "soon" in pairs) == (None, [], False)
    assert pairs.expire(10.0) == []


def test_pairs_that_go_out_and_come_back_again_and_again_do_not_pile_up() -> None:
    pairs = _new()
    for step in range(5_000):
        for publication in (1, 2):
            pairs.enter("late", publication)
            pairs.exit("late", publication, step / 10_000)
    pairs._check()
    assert len(pairs._heap) < 1_100
    assert pairs.next_due == 5.4999
    assert pairs.expire(5.5) == [("late", 1), ("late", 2)] and pairs.next_due is None
