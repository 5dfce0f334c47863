"""Work that may kill the process that does it."""

import os
import warnings


def run_in_child(work, meanwhile=None):
    """Run in a copy of this process and give its exit status."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # this process may have threads
        pid = os.fork()
    if pid == 0:
        try:
            work()
        finally:
            os._exit(0)
    if meanwhile is not None:
        meanwhile(pid)
    return os.waitpid(pid, 0)[1]
