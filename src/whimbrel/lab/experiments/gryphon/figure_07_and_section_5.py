"""Figure 7 and sections 5.1 to 5.3: the equality tree as subscriptions grow, and with each of its options.

Successor sets (section 5.2) are also measured in the general tree, whose tests are of any kind.
"""

from __future__ import annotations

from collections.abc import Mapping

from whimbrel.lab.harness.claims import below_linear, order, saving, slope
from whimbrel.lab.harness.contenders import Options, Series, counting, plain, racing, work_counted
from whimbrel.lab.harness.experiment import CountedRows, Experiment, Point, Scale, grid, per_subscription
from whimbrel.lab.harness.panels import STEPS_OVER_SIZE, TIME_OVER_SIZE, Panel
from whimbrel.lab.workloads import Workload, make

INDEXED = ["a1", "a2", "a3"]
"""The attributes by which figure 7 factors the tree: 27 subtrees."""
PLAIN: Options = {"collapse": False, "successors": False, "aggressive": False}
COLLAPSED: Options = {"collapse": True, "successors": False, "aggressive": False}
TREE: Series = {"equality_tree": ("equality_tree", {"index_attributes": INDEXED, "closed": True})}
"""The tree of figure 7: successor sets, refined, and three index attributes with closed domains."""
WITHOUT_SETS: Series = {
    "without successor sets": ("equality_tree", {**COLLAPSED, "index_attributes": INDEXED, "closed": True})
}
CHAINS: Series = {"plain tree": ("equality_tree", PLAIN), "collapsed": ("equality_tree", COLLAPSED)}
SETS: Series = {
    "collapsed": ("equality_tree", COLLAPSED),
    "successor sets": ("equality_tree", {"aggressive": False}),
    "refined": ("equality_tree", {}),
}
GENERAL: Series = {
    "general tree": ("gryphon_tree", {}),
    "with successor sets": ("gryphon_tree", {"successors": True}),
}
VISITS = {"steps": "nodes_visited"}
SIZES: Mapping[Scale, list[Point]] = {
    "tiny": grid(n=[300, 1_000]),
    "small": grid(n=[1_000, 5_000, 25_000]),
    "paper": grid(n=[500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000]),
    "full": grid(n=[1_000, 10_000, 100_000, 1_000_000]),
}


def workload_of(point: Point) -> Workload:
    """Gryphon's workload, with fewer events where there are few subscriptions, so that tests are short."""
    n = int(point["n"])
    return make("gryphon", n=n, events=200 if n <= 1_000 else 2_000)


def count_steps(point: Point) -> CountedRows:
    """Nodes visited by the tree, and conjunctions checked by naive."""
    workload = workload_of(point)
    yield from work_counted(TREE, workload, VISITS)
    yield from work_counted(plain("compiled_naive"), workload, {"steps": "conjunctions_checked"})


STEPS = Experiment(
    name="gryphon-steps",
    figure="figure 7, steps",
    question="How many nodes of the matching tree does an event visit as subscriptions grow?",
    why="Subscriptions with the same prefix share a path: a node that fails leaves out all that is below it.",
    scales=SIZES,
    counted=count_steps,
    memory=per_subscription(2_000),
    panels=(STEPS_OVER_SIZE,),
    claims=(below_linear("Steps grow less than linearly with subscriptions", "steps", "equality_tree"),),
    notes=("V = 3, K = 30, three index attributes; p1 = 0.98 and Zipf exponent 1 are ours (AMB-6a).",),
)

TIME = Experiment(
    name="gryphon-time",
    figure="figure 7, time",
    question="How long does an event take as subscriptions grow and 100 of them match?",
    why="The tree visits few nodes; the engine looks up combinations of values and checks only what they leave.",
    scales=SIZES,
    timed=racing(TREE | plain("compiled_naive"), workload_of),
    memory=per_subscription(2_000),
    panels=(TIME_OVER_SIZE,),
    claims=(
        below_linear("Time grows less than linearly with subscriptions", "time", "equality_tree"),
        order("The tree is faster than checking every subscription", "time", "equality_tree", "compiled_naive"),
    ),
)

SPACE = Experiment(
    name="gryphon-space",
    figure="figure 7, space",
    question="How much space does the tree take as subscriptions grow?",
    why="Successor sets are lists of nodes, so the tree has several times the edges of one without them.",
    scales=SIZES,
    counted=counting(TREE | WITHOUT_SETS, workload_of, {"space": "bytes"}),
    memory=per_subscription(4_000),
    panels=(Panel("space", "n", "subscriptions", "bytes"),),
    claims=(slope("Space grows linearly with subscriptions", "space", "equality_tree", "n", 1.0),),
    notes=(
        "The paper counts edges and successors; here it is bytes of all arrays.",
        "To hold 100 matches, subscriptions test more attributes the more there are: 2.6 at 1,000 and 8.1 at 100,000.",
    ),
)

COLLAPSING = Experiment(
    name="gryphon-collapse",
    figure="section 5.1",
    question="What does it save to collapse chains of nodes that test nothing?",
    why="With 30 attributes most levels of a path are `*`; a collapsed tree jumps over them.",
    scales=SIZES,
    timed=racing(CHAINS, workload_of),
    counted=counting(CHAINS, workload_of, VISITS),
    memory=per_subscription(4_000),
    panels=(TIME_OVER_SIZE, STEPS_OVER_SIZE),
    claims=(
        order("The collapsed tree is faster", "time", "collapsed", "plain tree"),
        saving("Collapsing saves about 60 % of the time", "time", "collapsed", "plain tree", 0.6),
    ),
)

SUCCESSORS = Experiment(
    name="gryphon-successors",
    figure="sections 5.2 and 5.3",
    question="What do successor sets add to a collapsed tree?",
    why="A blocked node jumps to nodes that can still match. To read the lists costs about what the visits did.",
    scales=SIZES,
    timed=racing(SETS, workload_of),
    counted=counting(SETS, workload_of, VISITS),
    memory=per_subscription(5_000),
    panels=(TIME_OVER_SIZE, STEPS_OVER_SIZE),
    claims=(
        order("Refined successor sets visit fewer nodes than collapsing alone", "steps", "refined", "collapsed"),
        order("Refined successor sets are faster than collapsing alone", "time", "refined", "collapsed"),
        saving("They save about 20 % of the time", "time", "refined", "collapsed", 0.2),
    ),
)


def general_workload(point: Point) -> Workload:
    """Equalities and ranges: Le Subscribe's workload, which the equality tree does not take."""
    return make("lesubscribe", n=int(point["n"]), p=0.5, events=200)


GENERAL_SUCCESSORS = Experiment(
    name="gryphon-general",
    figure="section 5.2, general case",
    question="What do successor sets save in a tree of tests of any kind?",
    why="A test rules out little where it compares: most `*` edges have to be followed, now or later.",
    scales={
        "tiny": grid(n=[200, 500]),
        "small": grid(n=[500, 2_000]),
        "paper": grid(n=[500, 2_000, 5_000, 10_000]),
        "full": grid(n=[2_000, 10_000, 50_000]),
    },
    timed=racing(GENERAL, general_workload),
    counted=counting(GENERAL, general_workload, {"steps": "nodes_visited", "bytes": "bytes"}),
    memory=per_subscription(20_000),
    panels=(
        Panel("time", "n", "subscriptions, p = 0.5", "CPU us per event"),
        Panel("steps", "n", "subscriptions, p = 0.5", "nodes visited per event"),
    ),
    claims=(
        order("Ours: successor sets visit fewer nodes here, too", "steps", "with successor sets", "general tree"),
        order("Ours: and are faster", "time", "with successor sets", "general tree"),
    ),
    notes=("The paper defines the general case and measures the equality tree only; see AMB-5a in papers.md.",),
)  # fmt: skip
