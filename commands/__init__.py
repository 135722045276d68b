"""The commands' insides: options, wiring of the rooms, exit codes."""
