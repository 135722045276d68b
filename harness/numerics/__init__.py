"""Outputs and gradients instead of time: what a build computes, compared with another or with a kept one."""
