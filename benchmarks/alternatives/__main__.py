"""Runs the alternatives beside Whimbrel and prints one table."""

import argparse
import json
import subprocess
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks.alternatives.conjunctions import Predicate, conjunction
from whimbrel import Index
from whimbrel.lab.workloads import Workload, event_dicts, make

HERE = Path(__file__).parent
SECONDS = 10.0
"""CPU seconds that each competitor may take; it gets as many events as fit."""
RULES = 500
"""Rules that the loop evaluates for each event; its time is scaled to all of them."""

Events = list[dict[str, object]]


class Figure(NamedTuple):
    """What one competitor took: events that it was given, pairs that it found, CPU microseconds per event."""

    name: str
    events: int
    pairs: int | None
    us: float


def main() -> None:
    """Read the options, measure, print."""
    options = argparse.ArgumentParser(prog="python -m benchmarks.alternatives", description=__doc__)
    options.add_argument("--workload", default="mixed", choices=["mixed", "hm", "lesubscribe"])
    options.add_argument("--subscriptions", type=int, default=100_000)
    options.add_argument("--events", type=int, default=20_000)
    given = options.parse_args()
    workload = make(given.workload, n=given.subscriptions, events=given.events)
    events = event_dicts(workload.events)
    index = Index()
    index.add_many(workload.subscriptions)
    figures = [
        in_batches(index, workload),
        one_by_one(index, events),
        rule_loop(workload, events),
        percolator(workload),
    ]
    single = figures[1].us
    matches = sum(len(index.match(event)) for event in events[:1_000]) / min(len(events), 1_000)
    print(f"{given.workload}, {given.subscriptions:,} subscriptions, {matches:.1f} matches/event; CPU time, one thread")
    print("| competitor | events | us/event | x Whimbrel, one by one |\n| --- | ---: | ---: | ---: |")
    for figure in figures:
        if figure.pairs is not None and figure.name != "Whimbrel, in a batch":
            expected = sum(len(index.match(event)) for event in events[: figure.events])
            assert figure.pairs == expected, f"{figure.name} found {figure.pairs} pairs, Whimbrel {expected}"
        print(f"| {figure.name} | {figure.events:,} | {figure.us:,.1f} | {figure.us / single:,.2f} |")


def in_batches(index: Index, workload: Workload) -> Figure:
    """Match the whole Arrow table; the median of five runs."""
    list(index.match_blocks(workload.events, threads=1))
    taken = []
    for _ in range(5):
        begin = time.process_time()
        pairs = sum(len(rows) for _, rows in index.match_blocks(workload.events, threads=1))
        taken.append((time.process_time() - begin) / workload.events.num_rows * 1e6)
    return Figure("Whimbrel, in a batch", workload.events.num_rows, pairs, sorted(taken)[2])


def one_by_one(index: Index, events: Events) -> Figure:
    """Match dicts one after the other."""
    for event in events[:100]:
        index.match(event)
    begin = time.process_time()
    pairs = sum(len(index.match(event)) for event in events)
    return Figure("Whimbrel, one by one", len(events), pairs, (time.process_time() - begin) / len(events) * 1e6)


def rule_loop(workload: Workload, events: Events) -> Figure:
    """Evaluate a sample of the rules for each event, and scale the time to all rules."""
    import rule_engine

    context = rule_engine.Context(default_value=None)
    texts = workload.subscriptions["filter"].to_pylist()
    step = max(1, len(texts) // RULES)
    rules = [rule_engine.Rule(expression(conjunction(text)), context=context) for text in texts[::step]]
    begin, count = time.process_time(), 0
    for event in events:
        for rule in rules:
            rule.matches(event)
        count += 1
        if time.process_time() - begin > SECONDS:
            break
    us = (time.process_time() - begin) / count * 1e6 * len(texts) / len(rules)
    return Figure("rule-engine, in a loop (scaled)", count, None, us)


def expression(predicates: list[Predicate]) -> str:
    """The rule in the library's own language."""
    parts = []
    for name, operator, operand in predicates:
        if operator == "between":
            assert isinstance(operand, list)
            low, high = operand
            parts.append(f"{name} != null and {name} >= {low!r} and {name} <= {high!r}")
        elif operator == "in":
            parts.append(f"{name} in {json.dumps(operand)}")
        elif operator == "all":
            assert isinstance(operand, list)
            parts += [f"{name} != null"] + [f"{json.dumps(member)} in {name}" for member in operand]
        else:
            parts.append(f"{name} != null and {name} {'==' if operator == '=' else '!='} {json.dumps(operand)}")
    return " and ".join(parts)


def percolator(workload: Workload) -> Figure:
    """Let Lucene's Monitor match the events; Maven and Java build and run it."""
    with tempfile.TemporaryDirectory() as folder:
        workload.write(folder, "jsonl")
        with (Path(folder) / "conjunctions.jsonl").open("w") as file:
            for text in workload.subscriptions["filter"].to_pylist():
                file.write(json.dumps(conjunction(text)) + "\n")
        project, built = HERE / "percolator", Path(folder) / "built"
        classpath = Path(folder) / "classpath"
        maven = ["mvn", "-q", "-B", f"-DbuildDirectory={built}", "compile", "dependency:build-classpath"]
        subprocess.run([*maven, f"-Dmdep.outputFile={classpath}"], cwd=project, check=True)
        command = ["java", "-Xmx4g", "-cp", f"{built / 'classes'}:{classpath.read_text()}", "Percolator", folder]
        done = subprocess.run(
            [*command, str(workload.events.num_rows), str(SECONDS)], stdout=subprocess.PIPE, text=True, check=True
        )
    found = json.loads(done.stdout)
    return Figure("Lucene Monitor", found["events"], found["pairs"], found["cpu_us"])


if __name__ == "__main__":
    main()
