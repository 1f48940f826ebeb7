"""The stage that delivers matches."""
