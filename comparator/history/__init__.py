"""Statistics over many runs, which the results server's history uses: levels of builds, changes, noise of hosts."""
