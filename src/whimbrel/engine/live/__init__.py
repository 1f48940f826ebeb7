"""The index while it changes: the head, the segments, snapshots, and what is saved."""
