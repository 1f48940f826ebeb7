"""Maps the ids of subscriptions to rows, and back."""
