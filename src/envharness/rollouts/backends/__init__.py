"""Where episodes are played: in this process, or in a pool of others."""
