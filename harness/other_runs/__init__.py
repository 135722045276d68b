"""What isn't an A/B measurement: one build alone, a smoke run, drawn inputs, what more rounds would find."""
