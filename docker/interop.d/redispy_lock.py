"""redis-py's Lock, at the key that a distlock with `bridge=plain&bridge_prefix=bridge:` takes for
the lock of this path."""

import os
from urllib.parse import unquote

import redis

from common import PATH, TTL, URL, obey, say

NAME = "bridge:" + unquote(PATH.rsplit("/", 1)[1])


class RedisPy:
    def __init__(self):
        # By default it polls ten times a second.
        self.held = redis.Redis.from_url(URL).lock(NAME, timeout=int(TTL) / 1000, sleep=0.02)

    def lock(self):
        self.held.acquire()
        return NAME

    def unlock(self):
        self.held.release()


say("ready", os.getpid())
obey(RedisPy())
