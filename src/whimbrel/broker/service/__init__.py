"""The broker itself, on the log, the store, the lists and the sequencer."""
