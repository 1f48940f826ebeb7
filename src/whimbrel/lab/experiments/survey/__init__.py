"""The experiment of the survey, and the claims of RAPIDMatch and SGIM: docs/papers.md, sections 7 to 9."""
