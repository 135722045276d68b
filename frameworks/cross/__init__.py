"""Two frameworks against each other: one operator of either, on the same inputs."""
