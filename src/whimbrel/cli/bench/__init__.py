"""`whimbrel bench`: measures this installation. One file per command; the measuring itself is in `lab.measure`."""
