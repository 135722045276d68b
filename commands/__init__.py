"""The commands' insides: options, wiring of the packages, exit codes."""
