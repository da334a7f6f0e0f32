"""Policies for any environment: scripted, random, any program on stdin and stdout, a language model."""
