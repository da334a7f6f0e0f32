"""Campaigns: several runs of the rigger that answer one question together."""
