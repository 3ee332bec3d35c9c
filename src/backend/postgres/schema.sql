CREATE SCHEMA IF NOT EXISTS distlock;

-- Which tables these are, which server has written here last, and for how long a session was ever
-- to live. `tidied`: idle queues up to this one were looked for last; with none of them, all have
-- been, at that time.
CREATE TABLE distlock.schema (
    version integer PRIMARY KEY,
    server text NOT NULL DEFAULT '',
    longest interval NOT NULL DEFAULT '0',
    tidied text NOT NULL DEFAULT '',
    tidied_at timestamptz NOT NULL DEFAULT '-infinity'
);
INSERT INTO distlock.schema (version) VALUES (2);

-- What belongs to no session: guarded writes, and notes on queues.
CREATE TABLE distlock.data (
    dir text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    value bytea NOT NULL,
    PRIMARY KEY (dir, name)
);
