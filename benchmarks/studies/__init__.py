"""Tables and figures of studies, from their kept results."""
