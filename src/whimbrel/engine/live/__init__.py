"""The changing state of an index: head, segments, snapshots, texts; and how it is saved."""
