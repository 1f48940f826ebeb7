"""What every command shares: its options, what it writes to the terminal, and how it reports refused input."""
