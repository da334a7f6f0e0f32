"""Language models: one small protocol, clients that keep it, and what their calls cost."""
