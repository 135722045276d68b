"""What is measured next, how often and for how long: chosen from the noise and costs that a case has shown."""
