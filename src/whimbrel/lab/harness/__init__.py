"""What every experiment of the lab shares: what one is, claims as predicates, running, results on disk, plots."""
