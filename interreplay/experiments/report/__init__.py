"""Reports from result folders: curves, tables and a page. Requires no Ray."""
