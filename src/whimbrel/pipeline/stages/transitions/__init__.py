"""The stage for publications: keyed updates in, transitions out."""
