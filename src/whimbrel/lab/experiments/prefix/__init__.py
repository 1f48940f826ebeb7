"""The experiments of prefix forwarding (Jerzak and Fetzer, DEBS 2007): docs/overlay.md."""
