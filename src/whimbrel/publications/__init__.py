"""Publications: events that stay, who matches them, and who begins or ceases to."""
