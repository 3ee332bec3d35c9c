-- Which tables these are, and a number above which none was given to an entry: numbers are fencing
-- tokens, and never fall. This row stays.
CREATE TABLE distlock_meta (
    version INTEGER NOT NULL,
    number INTEGER NOT NULL
);
INSERT INTO distlock_meta (version, number) VALUES (1, 0);

-- Whose entries are here until when: milliseconds of CLOCK_BOOTTIME, as long as the host runs that
-- has this for its boot's id.
CREATE TABLE distlock_sessions (
    id INTEGER PRIMARY KEY,
    boot TEXT NOT NULL,
    ttl INTEGER NOT NULL,
    expires INTEGER NOT NULL
);

-- Who stands in a queue, by number. `changed` is a number of the same count, drawn when the row was
-- last written. `since` is for people alone: it is what a clock on the wall showed, and nothing is
-- decided by it.
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

-- A session's entries go with it, no matter who deletes it.
CREATE TRIGGER distlock_ended AFTER DELETE ON distlock_sessions BEGIN
    DELETE FROM distlock_entries WHERE session = OLD.id;
END;

-- What belongs to no session: guarded writes, and notes on queues.
CREATE TABLE distlock_data (
    dir TEXT NOT NULL,
    name TEXT NOT NULL,
    value BLOB NOT NULL,
    changed INTEGER NOT NULL,
    PRIMARY KEY (dir, name)
) WITHOUT ROWID;
