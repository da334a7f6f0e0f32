"""Which crutches a policy leans on: a suite played with each tool, field and habit unavailable, staged and chained."""
