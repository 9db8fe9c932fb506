"""The start-up proof: every callable of an agent that can cause an effect is dominated by a decision."""
