"""The same runs on many hosts, through Dask: each case's verdict is made of rounds of one host.

What imports Dask is loaded only when a fleet is asked for; until then ``address`` and ``frequency`` are enough.
"""
