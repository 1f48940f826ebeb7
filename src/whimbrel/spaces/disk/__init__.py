"""Subject spaces on disk.

journal      every call, in a directory
saved_state  the whole state, as arrays of one file
"""
