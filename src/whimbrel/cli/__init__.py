"""The command line: one file per command; heavy modules are imported where they are used, so that help is fast."""
