"""Run in a build: return what frameworks/mxnet/network.py, which lists the calls of a network, answers to a request."""

import os
import sys

from build_script import adaptor, answer_each

sys.path.insert(0, os.path.dirname(os.path.dirname(adaptor.__file__)))
from network import document

answer_each(lambda request: document(adaptor, request))
