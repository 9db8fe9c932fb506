"""What middlewares and harness stand on: settings, thread state, reserved names, identity, paths, and ports.

Import from the modules; nothing is loaded here.
"""
