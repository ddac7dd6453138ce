"""The exception of all backends."""


class Error(RuntimeError):
    """An error that Gravel reports, with its text: what was wrong, and what to do."""


Error.__module__ = "gravel"
