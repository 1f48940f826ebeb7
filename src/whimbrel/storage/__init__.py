"""The one way Whimbrel uses a disk.

atomic      files and directories that appear whole or not at all; creation of a file that must be new
lock        locks between processes
array_file  one checksummed, memory-mapped file of named arrays
facts       the small JSON object that a caller stores with a save
errors      why something saved is refused
"""
