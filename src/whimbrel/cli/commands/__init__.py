"""Commands that stand alone, one per file. Groups of commands have packages of their own: pipeline, bench, demo."""
