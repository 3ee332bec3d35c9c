-- The numbers of entries, of all queues. They are fencing tokens, and never fall. A number is drawn
-- while the queue's row is locked, so that in a queue they are in the order of the commits.
CREATE SEQUENCE distlock.numbers;

-- Whose entries are here until when, by this server's clock; and where the server's log went on
-- when that was written, which tells the same in the order of events. No index has a column that a
-- renewal changes, so that it leaves nothing in an index
-- (https://www.postgresql.org/docs/17/storage-hot.html). `ended`: it is being removed, and is not
-- renewed any more.
CREATE TABLE distlock.sessions (
    id bigint PRIMARY KEY,
    ttl interval NOT NULL,
    expires timestamptz NOT NULL,
    beat bigint NOT NULL DEFAULT 0,
    ended boolean NOT NULL DEFAULT false
) WITH (fillfactor = 50);
CREATE INDEX sessions_ended ON distlock.sessions (id) WHERE ended;

-- One row for each queue, which a join locks. **An entry that is alone in its queue is stored in
-- this row**, if `session` is not null: then a lock and an unlock update one row by its key, and no
-- index. Whatever needs more of an entry than that moves it to `entries` first: see
-- `distlock.crowd`. `crowded`: there may be entries, or watches on the queue.
--
-- While a transaction with an old snapshot is open, such as a dump, nothing that was deleted or
-- changed since can be removed, and each search passes it. So no search begins below `lowest`,
-- which is at most the number of the first entry. And an entry is stored in a row of its own if
-- `page` has changed often: the newest version of this row was on that page when the last entry
-- came, and leaves it when there is no room for more versions. See `distlock.moves`.
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

-- Who stands in a queue, by number. `watched`: a session wants to be notified of its end, or of
-- anything in its queue. `moved`: it was in the queue's row before, where a transaction of a user's
-- may have locked it. An entry is written while its session's row is locked, and is deleted with
-- it.
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

-- Which sessions want to be notified, once, of what becomes of an entry, or with the number 0 of
-- anything in a queue. `polled`: the session cannot be notified, and looks whether the row is there.
CREATE TABLE distlock.watches (
    queue text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    session bigint NOT NULL,
    polled boolean NOT NULL DEFAULT coalesce(current_setting('distlock.polls', true) = 'on', false),
    PRIMARY KEY (queue, number, session)
);
CREATE INDEX watches_session ON distlock.watches (session);

-- How far the log was (`beat`) when the server's clock showed `shows`, as clients of one boot of a
-- host have read it by their own clock. A crash may take back renewals that were not flushed, and
-- then empties a table that is not logged.
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

-- What the server is called, from its start or a crash to the next one, by clients that do not see
-- the end of a connection: see `distlock.adopt`. A crash empties a table that is not logged, and a
-- standby or a copy of the server's files has it empty. A dump has it as it is, but another start.
CREATE UNLOGGED TABLE distlock.runs (
    started timestamptz PRIMARY KEY DEFAULT pg_postmaster_start_time(),
    run bigint NOT NULL
);

-- All entries, wherever they are stored, of sessions that are there. Deleting one here is how an
-- operator evicts it.
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
