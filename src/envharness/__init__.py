"""Reshape frozen agent environments at their interface."""
