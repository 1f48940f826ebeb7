"""The stage that delivers matches to files, functions and sinks."""
