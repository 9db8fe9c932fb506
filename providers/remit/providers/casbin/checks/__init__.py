"""What the rules say together: contradictions, rules nobody can reach, names that are one slip apart."""
