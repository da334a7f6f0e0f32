"""The run database: every completed episode and every decision, durable before anything depends on it."""
