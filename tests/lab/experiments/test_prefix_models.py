"""What the experiments of prefix forwarding stand on: levels and prefixes of trees, and a model of a search log."""

from whimbrel import Filter
from whimbrel.lab.experiments.prefix.figures_14_15_search_log import filters, pages, queries
from whimbrel.lab.experiments.prefix.grown_trees import grown
from whimbrel.model.event import Event


def test_levels_count_every_node_once() -> None:
    tree = grown(Filter.parse(text) for text in ("x > 5 AND y < 3", "x > 5 AND y < 3 AND z = 1", "x < 0"))
    assert tree.levels() == {1: 2, 2: 1, 3: 1}
    assert len(tree) == 4


def test_a_prefix_has_the_nodes_that_an_event_satisfies() -> None:
    tree = grown(Filter.parse(text) for text in ("x > 5 AND y < 3", "x > 5 AND y < 3 AND z = 1", "x < 0"))
    events = [Event({"x": 6, "y": 1}), Event({"x": 6, "y": 1, "z": 1}), Event({"x": 3})]
    assert [sorted(found.tolist()) for found in tree.prefixes(events)] == [[1, 2], [1, 2, 3], []]


def test_queries_are_different_the_same_every_time_and_contain_each_other() -> None:
    texts = queries(200, users=5)
    assert texts == queries(200, users=5) != queries(200, users=6)
    assert len(set(texts)) == 200
    assert any(one != two and one in two for one in texts for two in texts)


def test_pages_match_the_queries_that_they_contain() -> None:
    texts = queries(100, users=3)
    found = [[one.matches(page) for one in filters(texts)] for page in pages(texts, 10)]
    assert all(any(row) for row in found)
    assert not all(all(row) for row in found)
