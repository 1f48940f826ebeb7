"""The routing tree, its frozen form, and the prefixes that events carry.

paths          filters as paths of a tree
lane           the children of a node on one attribute, sorted, and a way into deep chains of them
routing_tree   the tree that changes: insert, remove, difference to what was published
tree_snapshot  an immutable version of the tree as arrays: match, forward, place
tree_kernels   the compiled part of matching and forwarding
tree_store     the versions of the tree that a process has
prefix         the nodes that an event satisfies, as bytes
tree_bytes     trees and changes of trees, as bytes
"""
