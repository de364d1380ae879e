"""Results of runs on disk, read in one way for tables and reports, and one kind of interval for what they say."""
