"""Arrays in files with checksums, and the directory of a saved index."""
