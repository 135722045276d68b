"""Any program: measured as a process, or by the values that it prints."""
