"""Designers: who writes the components. Each is one module and one registered id."""
