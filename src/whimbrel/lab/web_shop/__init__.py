"""A bundled sample: one day of events of a small web shop, and subscriptions to them."""
