"""The stages that match events, at rest and as a stream."""
