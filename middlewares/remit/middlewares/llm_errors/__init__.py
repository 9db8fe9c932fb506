"""What the slot around model calls is made of: reading failures, waiting, the circuit breaker, the limit of calls.

Import from the modules; nothing is loaded here.
"""
