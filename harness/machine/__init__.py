"""The host: what it is, how busy it is, which processors a run takes."""
