"""What makes an agent out of settings: assembly, sandboxes, tools and models."""
