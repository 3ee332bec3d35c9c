"""The commands and the channel of Redisson's RLock (RedissonLock.java, RedissonBaseLock.java), at
the key that a distlock with `bridge=redisson&bridge_prefix=bridge:` takes for the lock of this
path. There is no package of Redisson itself in Debian."""

import os
import threading
import time
import uuid
from urllib.parse import unquote

import redis

from common import PATH, TTL, URL, obey, say

NAME = "bridge:" + unquote(PATH.rsplit("/", 1)[1])
CHANNEL = "redisson_lock__channel:{" + NAME + "}"
LEASE = int(TTL)

TAKE = """
if ((redis.call('exists', KEYS[1]) == 0)
        or (redis.call('hexists', KEYS[1], ARGV[2]) == 1)) then
    redis.call('hincrby', KEYS[1], ARGV[2], 1);
    redis.call('pexpire', KEYS[1], ARGV[1]);
    return nil;
end;
return redis.call('pttl', KEYS[1]);
"""

RENEW = """
if (redis.call('hexists', KEYS[1], ARGV[2]) == 1) then
    redis.call('pexpire', KEYS[1], ARGV[1]);
    return 1;
end;
return 0;
"""

RELEASE = """
local val = redis.call('get', KEYS[3]);
if val ~= false then
    return tonumber(val);
end;
if (redis.call('hexists', KEYS[1], ARGV[3]) == 0) then
    return nil;
end;
local counter = redis.call('hincrby', KEYS[1], ARGV[3], -1);
if (counter > 0) then
    redis.call('pexpire', KEYS[1], ARGV[2]);
    redis.call('set', KEYS[3], 0, 'px', ARGV[5]);
    return 0;
else
    redis.call('del', KEYS[1]);
    redis.call(ARGV[4], KEYS[2], ARGV[1]);
    redis.call('set', KEYS[3], 1, 'px', ARGV[5]);
    return 1;
end;
"""


class Redisson:
    def __init__(self):
        self.client = redis.Redis.from_url(URL)
        self.id = f"{uuid.uuid4()}:{threading.get_ident() % 1000}"
        self.pushes = self.client.pubsub(ignore_subscribe_messages=True)
        self.watchdog = None

    def take(self):
        return self.client.eval(TAKE, 1, NAME, LEASE, self.id)

    def lock(self):
        left = self.take()
        if left is not None:
            self.pushes.subscribe(CHANNEL)
            while True:
                left = self.take()
                if left is None:
                    break
                self.wait(left)
            self.pushes.unsubscribe(CHANNEL)
        done = threading.Event()
        threading.Thread(target=self.keep, args=[done], daemon=True).start()
        self.watchdog = done
        return NAME

    def wait(self, left):
        """Waits for an unlock, at most as long as the lock is taken."""
        until = time.monotonic() + left / 1000
        while time.monotonic() < until:
            push = self.pushes.get_message(timeout=max(until - time.monotonic(), 0.001))
            if push and push["data"] == b"0":
                return

    def keep(self, done):
        while not done.wait(LEASE / 3000):
            if not self.client.eval(RENEW, 1, NAME, LEASE, self.id):
                return

    def unlock(self):
        self.watchdog.set()
        latch = "redisson_unlock_latch:{" + NAME + "}:" + uuid.uuid4().hex
        keys = [NAME, CHANNEL, latch]
        released = self.client.eval(RELEASE, 3, *keys, 0, LEASE, self.id, "publish", 1000)
        if released is None:
            raise RuntimeError("not locked by this thread")


say("ready", os.getpid())
obey(Redisson())
