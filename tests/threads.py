"""The same work in several threads at once."""

import threading


def in_threads(work, count):
    """Call `work` in so many threads, and wait until all have ended."""
    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
