"""The command line: options in, text out; the work is done by the packages below.

    main        the program: all commands and groups
    commands/   commands that stand alone, one per file
    broker/     `whimbrel serve`, and what talks to a broker: publish, subscribe, token, webhook, backup and others
    pipeline/   `whimbrel pipeline` and `backtest`, which run on Spark
    overlay/    `whimbrel overlay`
    lab/        `whimbrel lab`
    bench/      `whimbrel bench`
    demo/       `whimbrel demo`
    terminal/   what all of them share: options, messages, progress, reports of refused input

Heavy modules are imported inside the functions that use them, so that `--help` is fast.
"""
