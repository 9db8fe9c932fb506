"""The enforcement points of the decision layer, one module each. What touches tools needs the extra `agent`."""
