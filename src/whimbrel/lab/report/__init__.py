"""Results as pages: one of HTML with everything in it, and a summary in Markdown."""
