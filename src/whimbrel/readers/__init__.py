"""Files of events and subscriptions: JSON lines, CSV and Parquet, with the place of everything that is refused.

source                                opens a file, compressed or not, and recognises its format
json_lines, csv_table, parquet_table  one format each
events, subscription_rows             events in batches; subscriptions
match_files, lint_file, seen_names    what `whimbrel match` and `lint` do with files
"""
