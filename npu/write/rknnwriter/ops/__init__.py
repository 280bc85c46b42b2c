"""The operators: one function each, beside what it computes."""

from .conv import conv  # noqa: F401
from .cpu import *  # noqa: F401,F403
from .deconv import conv_transpose  # noqa: F401
from .eltwise import *  # noqa: F401,F403
from .index import *  # noqa: F401,F403
from .pool import average_pool, global_average_pool, global_pool, max_pool  # noqa: F401
from .shape import *  # noqa: F401,F403
from .other import *  # noqa: F401,F403
