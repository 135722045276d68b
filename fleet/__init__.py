"""The same runs on many hosts, through Dask: each case's verdict is made of rounds of one host.

Nothing imports Dask but ``security``, ``host``, ``service`` and ``client``, which are loaded when a fleet is asked for.
"""
