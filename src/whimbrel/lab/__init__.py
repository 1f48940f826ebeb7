"""The lab: frozen workloads, experiments on them, plots and reports."""
