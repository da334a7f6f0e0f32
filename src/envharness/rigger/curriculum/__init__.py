"""Curriculum memory: accepted environments as levels, what each still teaches, and which to play or measure next."""
