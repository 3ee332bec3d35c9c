-- The version of these tables, and a number that no entry's number exceeds. Numbers are fencing
-- tokens, and never decrease. This row is never deleted.
CREATE TABLE distlock_meta (
    version INTEGER NOT NULL,
    number INTEGER NOT NULL
);
INSERT INTO distlock_meta (version, number) VALUES (1, 0);

-- The sessions, and when they expire: in milliseconds of CLOCK_BOOTTIME, for the boot of the host
-- with this id.
CREATE TABLE distlock_sessions (
    id INTEGER PRIMARY KEY,
    boot TEXT NOT NULL,
    ttl INTEGER NOT NULL,
    expires INTEGER NOT NULL
);

-- The entries of the queues, by number. `changed` is a number of the same counter, drawn at the
-- row's last write. `since` is a wall clock time for operators. No decision depends on it.
CREATE TABLE distlock_entries (
    queue TEXT NOT NULL,
    number INTEGER NOT NULL,
    session INTEGER NOT NULL,
    ticket TEXT NOT NULL,
    label TEXT NOT NULL,
    value BLOB NOT NULL,
    version INTEGER NOT NULL DEFAULT 1,
    changed INTEGER NOT NULL,
    since INTEGER NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000 AS INTEGER)),
    PRIMARY KEY (queue, number),
    UNIQUE (session, ticket)
) WITHOUT ROWID;

-- Deletes a session's entries with it, whichever client or tool deletes the session.
CREATE TRIGGER distlock_ended AFTER DELETE ON distlock_sessions BEGIN
    DELETE FROM distlock_entries WHERE session = OLD.id;
END;

-- Data that belongs to no session: guarded writes, and notes on queues.
CREATE TABLE distlock_data (
    dir TEXT NOT NULL,
    name TEXT NOT NULL,
    value BLOB NOT NULL,
    changed INTEGER NOT NULL,
    PRIMARY KEY (dir, name)
) WITHOUT ROWID;
