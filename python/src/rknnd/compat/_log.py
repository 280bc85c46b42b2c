"""The log of an RKNNLite or RKNN object: one line for each message, a letter for its level, on standard error.

Each object has a logger of its own, so that a program can set one's level (`rknn.rknn_log.logger.setLevel()`)
without a word in what others, or its own logging, do.
"""
from __future__ import annotations

import logging
import sys

_LETTERS = {logging.DEBUG: "D", logging.INFO: "I", logging.WARNING: "W", logging.ERROR: "E", logging.CRITICAL: "E"}


class _Format(logging.Formatter):
    """"W inference: words"."""

    def format(self, record: logging.LogRecord) -> str:
        return f"{_LETTERS.get(record.levelno, 'I')} {record.getMessage()}"


class _StandardError(logging.Handler):
    """Whatever sys.stderr is when something is said."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            if sys.stderr is not None:
                print(self.format(record), file=sys.stderr, flush=True)
        except (OSError, ValueError):
            pass  # nobody is there to be told


class RKNNLog:
    """`verbose` says everything from debug on, else from warnings on; with `verbose`, also into `verbose_file`."""

    def __init__(self, name: str, verbose: bool = False, verbose_file: str | None = None) -> None:
        self.logger = logging.Logger(name, logging.DEBUG if verbose else logging.WARNING)
        self.file: logging.Handler | None = None
        self._said: set[str] = set()
        self._add(_StandardError())
        if verbose_file and not verbose:
            self.w(f"verbose_file {verbose_file} stays empty: verbose is not True")
        elif verbose_file:
            self._open(verbose_file)

    def _add(self, handler: logging.Handler) -> None:
        handler.setFormatter(_Format())
        self.logger.addHandler(handler)

    def _open(self, path: str) -> None:
        try:
            self.file = logging.FileHandler(path, encoding="utf-8")
        except OSError as error:
            self.w(f"verbose_file {path} cannot be written: {error}")
        else:
            self._add(self.file)

    def close(self) -> None:
        """Ends the file; later messages go to standard error alone."""
        if self.file:
            self.logger.removeHandler(self.file)
            self.file.close()
            self.file = None

    def e(self, words: str, _raise: bool = False) -> None:
        self.logger.error("%s", words)

    def w(self, words: str) -> None:
        self.logger.warning("%s", words)

    def i(self, words: str) -> None:
        self.logger.info("%s", words)

    def d(self, words: str) -> None:
        self.logger.debug("%s", words)

    def once(self, words: str) -> None:
        """A warning that would come with every frame."""
        if words not in self._said and len(self._said) < 1000:
            self._said.add(words)
            self.w(words)
