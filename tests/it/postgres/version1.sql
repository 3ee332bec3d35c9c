CREATE SCHEMA IF NOT EXISTS distlock;

-- Which tables these are, and the highest number that a queue ever had whose row was put away:
-- numbers are fencing tokens, and never fall. Which server has written here last, and for how long
-- a session was ever to live.
CREATE TABLE distlock.schema (
    version integer PRIMARY KEY,
    floor bigint NOT NULL,
    server text NOT NULL DEFAULT '',
    longest interval NOT NULL DEFAULT '0'
);
INSERT INTO distlock.schema (version, floor) VALUES (1, 0);

-- Whose entries are here until when, by this server's clock; and where the server's log went on when
-- that was written, which tells the same in the order of events.
CREATE TABLE distlock.sessions (
    id bigint PRIMARY KEY,
    ttl interval NOT NULL,
    expires timestamptz NOT NULL,
    beat bigint NOT NULL DEFAULT 0
);
CREATE INDEX sessions_expires ON distlock.sessions (expires);

-- One row for each queue, which a join locks; with the last number that was given.
CREATE TABLE distlock.queues (
    queue text COLLATE "C" PRIMARY KEY,
    number bigint NOT NULL,
    turn bigint NOT NULL,
    used timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 50);

-- Who stands in a queue, by number.
CREATE TABLE distlock.entries (
    queue text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    session bigint NOT NULL REFERENCES distlock.sessions ON DELETE CASCADE,
    ticket uuid NOT NULL,
    label text NOT NULL,
    value bytea NOT NULL,
    version bigint NOT NULL DEFAULT 1,
    since timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (queue, number),
    UNIQUE (session, ticket)
);

-- Which sessions want to be told, once, what becomes of an entry, or with the number 0 of anything
-- in a queue.
CREATE TABLE distlock.watches (
    queue text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    session bigint NOT NULL REFERENCES distlock.sessions ON DELETE CASCADE,
    PRIMARY KEY (queue, number, session)
);
CREATE INDEX watches_session ON distlock.watches (session);

-- What belongs to no session: guarded writes, and notes on queues.
CREATE TABLE distlock.data (
    dir text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    value bytea NOT NULL,
    PRIMARY KEY (dir, name)
);

-- The first word of each request: it fails if the session was put away, and one that writes keeps
-- the session until its end. A session that is over by the clock and still there may be renewed.
CREATE FUNCTION distlock.enter(who bigint, writes boolean) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF writes THEN
        PERFORM FROM distlock.sessions WHERE id = who FOR KEY SHARE;
    ELSE
        PERFORM FROM distlock.sessions WHERE id = who;
    END IF;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the session has ended' USING ERRCODE = 'DL001';
    END IF;
END $$;

-- Whether it is the server that has written here last. Another one, a standby that was promoted or
-- a backup, may lack what was confirmed last: sessions that were renewed, holders, numbers that
-- were given. So all sessions live for a whole time more, numbers begin far above all that are
-- known, and for the longest time that any session was to live, session 0 stands in front of all
-- who join. It is put away as any other that is not renewed.
CREATE FUNCTION distlock.recognize(this text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    now_at bigint := pg_current_wal_insert_lsn() - '0/0';
BEGIN
    UPDATE distlock.schema SET server = this WHERE server = '';
    UPDATE distlock.schema SET server = this,
        floor = greatest(floor, (SELECT max(number) FROM distlock.queues)) + 100000000
        WHERE server <> this;
    IF FOUND THEN
        UPDATE distlock.sessions SET expires = now() + ttl, beat = now_at;
        INSERT INTO distlock.sessions AS s (id, ttl, expires, beat)
            SELECT 0, longest, now() + longest, now_at FROM distlock.schema WHERE longest > '0'
            ON CONFLICT (id) DO UPDATE SET ttl = greatest(s.ttl, excluded.ttl),
            expires = now() + greatest(s.ttl, excluded.ttl), beat = now_at;
        -- Those that it does not know are over by then.
        UPDATE distlock.schema SET longest =
            (SELECT coalesce(max(ttl), '0') FROM distlock.sessions WHERE id <> 0);
    END IF;
END $$;

-- Only one at a time begins to watch a queue, and nobody changes it meanwhile. Queues share 64 locks:
-- a session's end may change any number of them, and the server has room for some thousand locks.
CREATE FUNCTION distlock.still(dir text) RETURNS void LANGUAGE sql AS $$
    SELECT pg_advisory_xact_lock(7234316, hashtext(dir) & 63);
$$;

CREATE FUNCTION distlock.entry_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' OR TG_OP = 'UPDATE' AND NEW.label <> OLD.label THEN
        PERFORM distlock.tell(OLD.queue, OLD.number, OLD.queue || '/' || to_hex(OLD.session) || '-'
            || OLD.ticket || CASE OLD.label WHEN '' THEN '' ELSE '.' || OLD.label END);
    ELSE
        PERFORM distlock.tell(NEW.queue, 0, NEW.queue || '/');
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER changed AFTER INSERT OR UPDATE OR DELETE ON distlock.entries
    FOR EACH ROW EXECUTE FUNCTION distlock.entry_changed();

CREATE FUNCTION distlock.data_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM distlock.tell(dir, 0, dir || '/') FROM (SELECT coalesce(NEW.dir, OLD.dir) AS dir) AS at;
    RETURN NULL;
END $$;

CREATE TRIGGER changed AFTER INSERT OR UPDATE OR DELETE ON distlock.data
    FOR EACH ROW EXECUTE FUNCTION distlock.data_changed();
-- Notifies the sessions that watch an entry, or with the number 0 its queue. Without a word they
-- find out by their recheck.
CREATE OR REPLACE FUNCTION distlock.tell(dir text, entry bigint, what text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    watcher bigint;
BEGIN
    PERFORM pg_advisory_xact_lock_shared(7234316, hashtext(dir) & 63);
    FOR watcher IN
        DELETE FROM distlock.watches WHERE queue = dir AND number IN (0, entry) RETURNING session
    LOOP
        -- The wake-up is a hint: into a full queue it would fail the change that it tells of.
        CONTINUE WHEN pg_notification_queue_usage() > 0.9;
        PERFORM pg_notify('distlock_' || to_hex(watcher), what || ' ' || entry);
    END LOOP;
END $$;
