"""From rules to decisions: the index, the evaluator for every other model, and pycasbin where both give up."""
