"""`etcdctl lock` and `etcdctl elect`, one process per turn."""

import os
import subprocess
import threading

from common import PATH, SERVERS, TTL, VALUE, obey, say

BASE = ["etcdctl", f"--endpoints={SERVERS}"]


class Etcdctl:
    def lock(self):
        if PATH.endswith("!election"):
            command = [*BASE, "elect", PATH, VALUE]
        else:
            command = [*BASE, "lock", f"--ttl={int(TTL) // 1000}", PATH]
        # It prints the key and the value once it has the lock, and keeps the lock until it gets a
        # signal.
        self.child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        key = self.child.stdout.readline().strip()
        if not key:
            raise RuntimeError(f"{command} ended with {self.child.wait()}")
        return key

    def unlock(self):
        self.child.terminate()
        # 3.5 exits with 0, or with 128 plus the signal's number.
        status = self.child.wait()
        self.child.stdout.close()
        if status not in (0, -15, 143):
            raise RuntimeError(f"etcdctl ended with {status}")

    def observe(self):
        child = subprocess.Popen([*BASE, "elect", "-l", PATH], stdout=subprocess.PIPE, text=True)

        def read():
            # The key and the value alternate.
            for number, line in enumerate(child.stdout):
                if number % 2 == 1:
                    say("leader", line.strip())

        threading.Thread(target=read, daemon=True).start()


# A kill of the group kills the child, too.
if os.getpgrp() != os.getpid():
    os.setsid()
say("ready", os.getpid())
obey(Etcdctl())
