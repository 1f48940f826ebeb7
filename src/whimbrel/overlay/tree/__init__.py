"""The routing tree, its frozen form, and the prefixes that events carry.

paths           filters as paths of a tree
lane            the children of a node on one attribute, sorted
routing_tree    the tree that changes: insert, remove, difference to what was published
snapshot        an immutable version of it as arrays: match, forward, place
tree_kernels    the compiled part of matching and forwarding
prefix          the matched nodes of an event as bytes
tree_bytes      trees and changes of trees as bytes
"""
