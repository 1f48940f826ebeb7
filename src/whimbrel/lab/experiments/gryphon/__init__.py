"""The experiments of Gryphon (Aguilera et al., PODC 1999): docs/papers.md, sections 2 to 6."""
