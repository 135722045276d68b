"""Measuring: from cases and two builds to samples, in rounds of fresh process pairs."""
