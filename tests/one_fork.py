"""What a process does that forks commands for tests: a pair measures a case in one fork, for what takes no judging.

tests/harness/test_pair.py is about as many as the product makes.
"""

import opduel.harness.rounds.pair

opduel.harness.rounds.pair.MOST_FORKS = 1
