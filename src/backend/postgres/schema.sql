CREATE SCHEMA IF NOT EXISTS distlock;

-- The version of these tables, the server that last wrote here, and the longest TTL of any session.
-- `tidied`: the last queue that `distlock.tidy` has checked, or an empty text after it has checked
-- all queues. `tidied_at`: when it did so.
CREATE TABLE distlock.schema (
    version integer PRIMARY KEY,
    server text NOT NULL DEFAULT '',
    longest interval NOT NULL DEFAULT '0',
    tidied text NOT NULL DEFAULT '',
    tidied_at timestamptz NOT NULL DEFAULT '-infinity'
);
INSERT INTO distlock.schema (version) VALUES (2);

-- Data that belongs to no session: guarded writes, and notes on queues.
CREATE TABLE distlock.data (
    dir text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    value bytea NOT NULL,
    PRIMARY KEY (dir, name)
);
