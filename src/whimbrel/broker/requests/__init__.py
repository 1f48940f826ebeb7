"""What requests say and what the log keeps of them: events, subscriptions, rules, settings, errors. No I/O."""
