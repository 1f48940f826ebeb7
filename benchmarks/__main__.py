"""`python -m benchmarks`: the benchmarks of `whimbrel bench` that have rivals, beside all of them."""

import typer

import benchmarks.rivals  # noqa: F401 - registers them
from whimbrel.cli.bench.bench_broker import broker
from whimbrel.cli.bench.races import match, pipeline
from whimbrel.cli.main import run_program

app = typer.Typer(
    help="Measure Whimbrel beside its rivals.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.callback(invoke_without_command=True)
def run_all(context: typer.Context) -> None:
    """Measure Whimbrel beside its rivals; without a name, run match and pipeline."""
    if context.invoked_subcommand is None:
        match()
        pipeline()


for command in (match, pipeline, broker):
    app.command()(command)

if __name__ == "__main__":
    run_program(app)
