"""A second reading of what NPU programs compute: registers and memory alone, never the graph.

Written from the register and arithmetic facts of docs/rknn-format.md, sharing nothing with npu/sim: files
are executed task by task from their own command streams, in plain integers, and what comes out is
compared with the software NPU node by node (judge.py).
"""


class Unsupported(Exception):
    """A task uses what is not modelled here; the words name the register and its value."""
