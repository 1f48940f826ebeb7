"""The experiments of Le Subscribe (Fabret et al.): docs/papers.md, sections 10 to 17."""
