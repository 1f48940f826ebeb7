"""The command line: options in, text out; the work is done by the packages below.

    commands/   commands that stand alone, one per file
    pipeline/   `whimbrel pipeline` and `backtest`, which run on Spark
    bench/      `whimbrel bench`
    demo/       `whimbrel demo`
    terminal/   what all of them share: options, messages, progress, reports of refused input

Heavy modules are imported inside the functions that use them, so that `--help` is fast.
"""
