"""Results of runs on disk: the reader and the confidence intervals of tables and reports."""
