"""The common part of the clients in Python: see protocol.md."""

import sys
import time

URL, PATH, TTL, VALUE = sys.argv[1:5]
SERVERS = URL.split("://")[1]


def say(word, *rest):
    print(word, time.monotonic_ns(), *rest, flush=True)


def obey(client):
    """Executes commands from standard input with the methods of `client`."""
    for line in sys.stdin:
        command, *words = line.split()
        try:
            if command == "lock":
                lock(client)
                continue
            if command == "unlock":
                unlock(client)
            elif command == "run":
                for _ in range(int(words[0])):
                    lock(client)
                    time.sleep(int(words[1]) / 1000)
                    unlock(client)
                    time.sleep(int((words[2:] or [0])[0]) / 1000)
            elif command == "observe":
                client.observe()
            else:
                raise ValueError(f"unknown command {command}")
            say("done")
        except Exception as error:  # any error has to be reported
            say("error", repr(error))
            sys.exit(1)


def lock(client):
    say("ask")
    say("grant", client.lock())


def unlock(client):
    say("release")
    client.unlock()
