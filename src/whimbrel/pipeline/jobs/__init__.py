"""Jobs that are made of stages."""
