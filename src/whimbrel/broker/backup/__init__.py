"""Backups of a broker's data, taken while it runs, and their restoration.

making                      copies a data directory
sending, receiving, frames  the same over HTTP, as a stream of frames
restoring                   makes a data directory of a backup, and gives its log another id
manifest                    what a backup says about itself
"""
