"""Forked snapshots: an environment is loaded, reset and staged once, and each rollout goes on from a fork of it."""
