"""The vocabulary every other layer shares: types, environment and policy contracts, stacks as data, errors."""
