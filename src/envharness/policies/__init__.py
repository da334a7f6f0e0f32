"""Policies that need no key: scripted, random, and any program on stdin and stdout."""
