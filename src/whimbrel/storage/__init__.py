"""The one way a disk is used: atomic writes, locks, array files, checksums."""
