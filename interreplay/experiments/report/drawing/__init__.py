"""Charts as data, and who draws them: Matplotlib for files, Plotly for the page."""
