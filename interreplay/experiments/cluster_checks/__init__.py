"""Whether runs on this node of a cluster would step into a known trap."""
