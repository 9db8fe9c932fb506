"""From an operator's files to rules, and back: read strictly, every problem with its line."""
