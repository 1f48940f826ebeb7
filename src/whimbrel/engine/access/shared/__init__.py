"""What all access keys use: expected events, items, records, rows."""
