"""Bitmap keys: chunks of up to 512 conjunctions with a bit for each that is certainly dead."""
