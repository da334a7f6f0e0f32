"""Rollouts: a job becomes an episode, on one of several backends."""
