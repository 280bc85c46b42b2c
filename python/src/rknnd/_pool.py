"""Threads for calls that are awaited. They end with the session, and never keep the interpreter from ending."""
from __future__ import annotations

import asyncio
import threading
from queue import SimpleQueue
from typing import Any, Callable


class Pool:
    """Up to `size` threads, started as they are needed."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._work: SimpleQueue[tuple[Callable[[], Any], asyncio.AbstractEventLoop, asyncio.Future[Any]] | None] = \
            SimpleQueue()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._under_way = 0

    def submit(self, call: Callable[[], Any]) -> asyncio.Future[Any]:
        """An awaitable of the running loop for what `call` returns. One that is cancelled is not waited for any more, but
        the call is made."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        with self._lock:
            self._under_way += 1
            if len(self._threads) < min(self._size, self._under_way):
                thread = threading.Thread(target=self._serve, name="rknnd-run", daemon=True)
                self._threads.append(thread)
                thread.start()
        self._work.put((call, loop, future))
        return future

    def _serve(self) -> None:
        while (item := self._work.get()) is not None:
            call, loop, future = item
            result, error = None, None
            try:
                result = call()
            except BaseException as raised:  # whatever it is, it belongs to who awaits
                error = raised
            with self._lock:
                self._under_way -= 1
            try:
                loop.call_soon_threadsafe(_settle, future, result, error)
            except RuntimeError:
                pass  # the loop has been closed: nobody awaits any more
            item = call = future = result = error = None  # type: ignore[assignment]

    def close(self) -> None:
        """Ends the threads once what was submitted is done; does not wait."""
        with self._lock:
            for _ in self._threads:
                self._work.put(None)
            self._threads = []


def _settle(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.cancelled():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)
