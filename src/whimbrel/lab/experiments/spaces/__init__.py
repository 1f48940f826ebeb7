"""The experiments of subject spaces (Leung and Jacobsen, CASCON 2003): docs/papers.md, sections 18 to 20."""
