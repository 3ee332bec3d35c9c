"""kazoo's Lock. The argument after the common ones is the layout:

alone       unmodified: it only sees nodes of its own kind
patterns    its own nodes, but it also waits for nodes of Curator's layout
curator     nodes of Curator's layout
"""

import os
import sys

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
from kazoo.recipe.lock import Lock

from common import PATH, SERVERS, TTL, obey, say


CURATOR = "-lock-"


class CuratorLock(Lock):
    _NODE_NAME = CURATOR
    _EXCLUDE_NAMES = [CURATOR]


LAYOUTS = {
    "alone": Lock,
    "patterns": lambda client, path: Lock(client, path, extra_lock_patterns=[CURATOR]),
    "curator": CuratorLock,
}


class Kazoo:
    def __init__(self):
        self.make = LAYOUTS[sys.argv[5]]
        self.client = KazooClient(hosts=SERVERS, timeout=int(TTL) / 1000)
        self.client.start()
        self.held = None

    def lock(self):
        while True:
            # A Lock creates its directory once. Other libraries' directories are removed when
            # empty, so a Lock that is kept may not find its own.
            self.held = self.make(self.client, PATH)
            try:
                self.held.acquire()
                return f"{PATH}/{self.held.node}"
            except NoNodeError:
                say("note", "the directory went in between")

    def unlock(self):
        self.held.release()


kazoo = Kazoo()
say("ready", os.getpid())
obey(kazoo)
kazoo.client.stop()
