"""Results of runs on disk: one reader and one kind of interval for tables and reports."""
