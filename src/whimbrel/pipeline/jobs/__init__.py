"""Jobs that are made of stages: what a filter would have matched (`backtest.py`)."""
