-- The numbers of all queues' entries. They are fencing tokens, and never decrease. A number is
-- drawn while the queue's row is locked, so the numbers within a queue are in the order of the
-- commits.
CREATE SEQUENCE distlock.numbers;

-- The sessions. `expires`: when the session expires by this server's clock. Other clients remove it
-- 0.1 TTL later at the earliest. `beat`: the position of the server's log when `expires` was
-- written, which orders renewals independently of the clock. `ended`: the session is being removed,
-- and can no longer be renewed.
--
-- No index has a column that a renewal changes, so a renewal adds nothing to an index
-- (https://www.postgresql.org/docs/17/storage-hot.html).
CREATE TABLE distlock.sessions (
    id bigint PRIMARY KEY,
    ttl interval NOT NULL,
    expires timestamptz NOT NULL,
    beat bigint NOT NULL DEFAULT 0,
    ended boolean NOT NULL DEFAULT false
) WITH (fillfactor = 50);
CREATE INDEX sessions_ended ON distlock.sessions (id) WHERE ended;

-- One row for each queue, which a join locks. **An entry that is alone in its queue is stored in
-- this row**; otherwise `session` is null. A lock and an unlock then update one row by its key, and
-- no index. Every other change of the entry, and every watch, moves it to `entries` first: see
-- `distlock.crowd`. `crowded`: there may be rows in `entries`, or watches on the queue.
--
-- While a transaction with an old snapshot is open, such as a dump, the server keeps all versions
-- of rows that were deleted or changed since, and each search passes them. No search therefore
-- begins below `lowest`, which is at most the number of the first entry in `entries`.
--
-- The queue's row moves to another page when its page has no room for more versions. `page`: the
-- page of its newest version when the last entry was stored in it. If the row moves often, new
-- entries are stored in `entries`: see `distlock.moves`.
CREATE TABLE distlock.queues (
    queue text COLLATE "C" PRIMARY KEY,
    crowded boolean NOT NULL DEFAULT false,
    number bigint,
    session bigint,
    ticket uuid,
    label text,
    value bytea,
    since timestamptz NOT NULL DEFAULT now(),
    lowest bigint NOT NULL DEFAULT 0,
    page bigint NOT NULL DEFAULT 0,
    moves integer NOT NULL DEFAULT 0,
    CHECK (NOT (crowded AND session IS NOT NULL))
) WITH (fillfactor = 50);

-- The entries of the queues, by number. `watched`: a session watches the entry or its queue.
-- `moved`: the entry was in the queue's row before, where a user's transaction may have locked it.
-- A client writes its entries while its session's row is locked, and they are deleted with the
-- session.
CREATE TABLE distlock.entries (
    queue text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    session bigint NOT NULL,
    ticket uuid NOT NULL,
    label text NOT NULL,
    value bytea NOT NULL,
    version bigint NOT NULL DEFAULT 1,
    watched boolean NOT NULL DEFAULT false,
    moved boolean NOT NULL DEFAULT false,
    since timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (queue, number),
    UNIQUE (session, ticket)
) WITH (fillfactor = 50);

-- The sessions to notify once, when an entry is deleted or gets another key. With the number 0, the
-- session is notified of any change in the queue. `polled`: the session cannot be notified, and
-- polls for this row instead. `connection`: the connection that has begun the watch.
CREATE TABLE distlock.watches (
    queue text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    session bigint NOT NULL,
    polled boolean NOT NULL DEFAULT coalesce(current_setting('distlock.polls', true) = 'on', false),
    connection text NOT NULL DEFAULT coalesce(current_setting('distlock.connection', true), ''),
    PRIMARY KEY (queue, number, session)
);
CREATE INDEX watches_session ON distlock.watches (session);

-- What clients have read of the server: its clock showed `shows` when its log was at `beat`. `at`
-- is the time of the reply by the clock of the client's host, which counts for one boot of that
-- host. The table is unlogged, so a crash empties it: the crash may undo renewals that were not
-- flushed.
CREATE UNLOGGED TABLE distlock.observations (
    boot text NOT NULL,
    at bigint NOT NULL,
    server text NOT NULL,
    started timestamptz NOT NULL DEFAULT pg_postmaster_start_time(),
    shows bigint NOT NULL,
    beat bigint NOT NULL,
    PRIMARY KEY (boot, at)
);
CREATE INDEX observations_shows ON distlock.observations (shows);

-- The name of the server's run, for clients that do not notice the end of a connection: see
-- `distlock.adopt`. A run lasts from the server's start, or from a crash, to the next one. The
-- table is unlogged: a crash empties it, and a standby or a base backup has no rows of it. A dump
-- contains the row, with the start of the former server.
CREATE UNLOGGED TABLE distlock.runs (
    started timestamptz PRIMARY KEY DEFAULT pg_postmaster_start_time(),
    run bigint NOT NULL
);

-- All entries of existing sessions, wherever they are stored. An operator evicts an entry by
-- deleting it from this view.
CREATE VIEW distlock.members AS
    SELECT e.queue, e.number, e.session, e.ticket, e.label, e.value, e.version, e.since
        FROM distlock.entries AS e JOIN distlock.sessions AS s ON s.id = e.session
        JOIN distlock.queues AS q ON q.queue = e.queue AND e.number >= q.lowest
    UNION ALL
    SELECT q.queue, q.number, q.session, q.ticket, q.label, q.value, 1, q.since
        FROM distlock.queues AS q JOIN distlock.sessions AS s ON s.id = q.session;

CREATE FUNCTION distlock.evict() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM distlock.crowd(OLD.queue);
    DELETE FROM distlock.entries WHERE queue = OLD.queue AND number = OLD.number;
    RETURN CASE WHEN FOUND THEN OLD END;
END $$;

CREATE TRIGGER evicted INSTEAD OF DELETE ON distlock.members
    FOR EACH ROW EXECUTE FUNCTION distlock.evict();
