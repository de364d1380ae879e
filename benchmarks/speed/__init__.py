"""Time and memory of the parts, measured next to other libraries."""
