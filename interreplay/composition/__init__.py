"""Parts put together: with the storage that they work on, and the rows that they work with."""
