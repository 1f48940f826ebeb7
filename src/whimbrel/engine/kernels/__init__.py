"""The compiled loops that match: from the ranks of events to slots."""
