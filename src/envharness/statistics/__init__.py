"""What outcomes are worth: intervals, posteriors, designs and tests. Pure functions of counts; they know no episode."""
