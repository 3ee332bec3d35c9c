-- Deletes a session's entries and watches with it. As everywhere, a queue's row is locked before an
-- entry whose deletion locks that row: see `distlock.wait_for_checks`.
CREATE FUNCTION distlock.session_ended() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM distlock.queues WHERE queue IN (SELECT queue FROM distlock.entries
        WHERE session = OLD.id AND moved) ORDER BY queue FOR UPDATE;
    DELETE FROM distlock.entries WHERE session = OLD.id;
    DELETE FROM distlock.watches WHERE session = OLD.id;
    RETURN OLD;
END $$;

CREATE TRIGGER ended BEFORE DELETE ON distlock.sessions
    FOR EACH ROW EXECUTE FUNCTION distlock.session_ended();

-- Ends sessions, and removes them with their entries and watches. It deletes at most `most`
-- entries, so that one request does not take long. Watched entries are deleted first, and each
-- session with its last entry. Returns whether some are left.
CREATE FUNCTION distlock.remove(ids bigint[], most integer) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    chosen tid[];
BEGIN
    IF cardinality(ids) = 0 THEN
        RETURN false;
    END IF;
    -- A transaction may have checked a lock of these sessions. Once a session has ended, the next
    -- joiner removes its entry from the queue's row, which such a check does not prevent.
    PERFORM FROM distlock.sessions WHERE id = ANY (ids) ORDER BY id FOR UPDATE;
    UPDATE distlock.sessions SET ended = true WHERE id = ANY (ids) AND NOT ended;
    chosen := ARRAY(SELECT e.ctid FROM distlock.watches AS w JOIN distlock.entries AS e
            ON e.queue = w.queue AND e.number = w.number WHERE e.session = ANY (ids) LIMIT most);
    chosen := chosen || ARRAY(SELECT ctid FROM distlock.entries WHERE session = ANY (ids)
        LIMIT most - cardinality(chosen));
    PERFORM FROM distlock.queues WHERE queue IN (SELECT queue FROM distlock.entries
        WHERE ctid = ANY (chosen) AND moved) ORDER BY queue FOR UPDATE;
    DELETE FROM distlock.entries WHERE ctid = ANY (chosen) AND session = ANY (ids);
    DELETE FROM distlock.sessions AS s WHERE id = ANY (ids)
        AND NOT EXISTS (SELECT FROM distlock.entries WHERE session = s.id);
    -- In the meantime, other joiners may have moved more entries from their queues' rows.
    RETURN EXISTS (SELECT FROM distlock.sessions WHERE id = ANY (ids));
END $$;

-- Removes dead sessions of other clients, as `distlock.remove` does. An open transaction may have
-- locked an entry of one of them, for example because an operator is evicting it. The sessions are
-- then removed one by one, in a random order, so that the transaction delays no other session. The
-- caller has locked the sessions' rows, so none is renewed in between: the rows stay locked when an
-- attempt is rolled back
-- (https://www.postgresql.org/docs/17/sql-select.html#SQL-FOR-UPDATE-SHARE).
CREATE FUNCTION distlock.sweep(ids bigint[], most integer) RETURNS boolean LANGUAGE plpgsql
SET lock_timeout = 30 AS $$
DECLARE
    who bigint;
    more boolean := false;
    failed integer := 0;
BEGIN
    BEGIN
        RETURN distlock.remove(ids, most);
    EXCEPTION WHEN lock_not_available THEN
        NULL;
    END;
    FOR who IN SELECT id FROM unnest(ids) AS id ORDER BY random() LOOP
        BEGIN
            more := distlock.remove(ARRAY[who], most) OR more;
        EXCEPTION WHEN lock_not_available THEN
            failed := failed + 1;
        END;
        -- All later requests on the connection wait for this one.
        EXIT WHEN more OR failed = 3;
    END LOOP;
    RETURN more;
END $$;

-- Returns a row if the entry is present, and its session has not expired by the server's clock at
-- this moment. Both rows then stay until the transaction ends. The session's row is locked first,
-- in the same order as where sessions are removed. An entry that has left its queue's row is in
-- `entries`, or was deleted, so `entries` is searched last.
CREATE FUNCTION distlock.held(dir text, entry bigint) RETURNS SETOF integer LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM distlock.sessions AS s JOIN distlock.queues AS q ON q.session = s.id
        WHERE q.queue = dir AND q.number = entry AND NOT s.ended
        AND s.expires > clock_timestamp() FOR KEY SHARE;
    IF FOUND THEN
        RETURN NEXT 1;
        RETURN;
    END IF;
    RETURN QUERY SELECT 1 FROM distlock.sessions AS s
        JOIN distlock.entries AS e ON e.session = s.id
        WHERE e.queue = dir AND e.number = entry AND NOT s.ended
        AND s.expires > clock_timestamp() FOR KEY SHARE;
END $$;

-- Deletes entries that the session has released before: see `released.rs`.
CREATE FUNCTION distlock.release(who bigint, dirs text[], tickets uuid[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM distlock.queues WHERE queue = ANY (dirs)
        AND (session = who AND ticket = ANY (tickets) OR queue IN (SELECT queue
            FROM distlock.entries WHERE session = who AND ticket = ANY (tickets) AND moved))
        ORDER BY queue FOR UPDATE;
    UPDATE distlock.queues SET session = NULL WHERE queue = ANY (dirs) AND session = who
        AND ticket = ANY (tickets);
    -- After the queues' rows, because an entry moves from there to `entries`.
    DELETE FROM distlock.entries WHERE session = who AND ticket = ANY (tickets);
END $$;

-- Removes the rows of queues that were unused for 20 s, among the next 1,000 of all queues. Returns
-- whether to continue at once. Every 15 s a client begins again with the first queue. One client
-- tidies at a time, and nothing depends on it.
CREATE FUNCTION distlock.tidy() RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    after text;
    at timestamptz;
    last text;
    seen bigint;
    idle text[];
BEGIN
    -- Almost all calls end here, and write nothing.
    SELECT tidied, tidied_at INTO after, at FROM distlock.schema;
    IF after = '' AND at BETWEEN now() - interval '15 seconds' AND now() THEN
        RETURN false;
    END IF;
    SELECT tidied INTO after FROM distlock.schema FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM distlock.unflushed();
    SELECT max(queue), count(*) INTO last, seen FROM (SELECT queue FROM distlock.queues
        WHERE queue > after ORDER BY queue LIMIT 1000) AS next;
    -- A row that another transaction has locked stays. The entries are searched by the next
    -- statement, which sees those that were added before this one has locked their queue's row.
    idle := ARRAY(SELECT queue FROM distlock.queues WHERE queue > after AND queue <= last
            AND since < now() - interval '20 seconds' AND NOT distlock.wanders(moves, since)
            AND (session IS NULL OR NOT EXISTS (
                SELECT FROM distlock.sessions WHERE id = queues.session))
            ORDER BY queue FOR UPDATE SKIP LOCKED);
    DELETE FROM distlock.queues AS q WHERE queue = ANY (idle)
        AND NOT EXISTS (SELECT FROM distlock.entries AS e
            WHERE e.queue = q.queue AND e.number >= q.lowest)
        AND NOT EXISTS (SELECT FROM distlock.watches AS w WHERE w.queue = q.queue);
    IF seen < 1000 THEN
        last := '';
    END IF;
    UPDATE distlock.schema SET tidied = last, tidied_at = now();
    RETURN last <> '';
END $$;

-- Records what a client has read. Older records are kept farther apart: some eight for each
-- doubling of the age, and none beyond 27 hours, because no TTL is longer than a day. One client at
-- a time removes the others. Of records that are close together, the last one stays: the session
-- that a later client asks about may have been renewed between them.
CREATE FUNCTION distlock.observe(this text, now_at bigint, of_server text, now_shows bigint,
    now_beat bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO distlock.observations (boot, at, server, shows, beat)
        VALUES (this, now_at, of_server, now_shows, now_beat) ON CONFLICT DO NOTHING;
    IF pg_try_advisory_xact_lock(7234316409435) THEN
        DELETE FROM distlock.observations WHERE boot = this AND at IN (
            SELECT at FROM (
                SELECT at,
                    row_number() OVER (PARTITION BY apart, at / apart ORDER BY at DESC) AS place
                    FROM (SELECT at, greatest(20000, (2 ^ floor(log(2,
                        greatest(now_at - at, 1)::numeric / 8)))::bigint) AS apart
                        FROM distlock.observations WHERE boot = this) AS aged) AS placed
            WHERE place > 1);
        DELETE FROM distlock.observations WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM distlock.observations
            WHERE shows < now_shows - 27 * 3600 * 1000000::bigint ORDER BY shows LIMIT 100));
    END IF;
END $$;

-- Records the server in tables that another server has used. It may be a promoted standby or a
-- restored backup, and lack the last confirmed writes: renewals, grants and numbers. All sessions
-- therefore live for another TTL, and numbers continue far above all known ones. For 1.1 times the
-- longest TTL of any session, session 0 precedes all joiners. It is removed like any session that
-- is not renewed.
CREATE FUNCTION distlock.recognize(this text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE distlock.schema SET server = this WHERE server = '';
    UPDATE distlock.schema SET server = this WHERE server <> this;
    IF FOUND THEN
        PERFORM distlock.skip_numbers();
        UPDATE distlock.sessions SET expires = now() + ttl,
            beat = pg_current_wal_insert_lsn() - '0/0' WHERE NOT ended;
        PERFORM distlock.quarantine();
    END IF;
END $$;

-- Makes numbers continue far above all known ones, and at least at the microseconds since 1970. A
-- server draws fewer than a million numbers a second, so every number is below the microseconds
-- that had passed when it was drawn. The new numbers are therefore above all lost ones, also where
-- tables are copied without their sequence
-- (https://www.postgresql.org/docs/17/logical-replication-restrictions.html).
CREATE FUNCTION distlock.skip_numbers() RETURNS void LANGUAGE sql AS $$
    SELECT setval('distlock.numbers', greatest(
        (SELECT last_value FROM distlock.numbers) + 100000000,
        (SELECT max(number) FROM distlock.entries) + 100000000,
        (SELECT max(number) FROM distlock.queues) + 100000000,
        (extract(epoch FROM now()) * 1000000)::bigint));
$$;

-- Grants nothing for 1.1 times the longest TTL of any session.
CREATE FUNCTION distlock.quarantine() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    now_at bigint := pg_current_wal_insert_lsn() - '0/0';
BEGIN
    INSERT INTO distlock.sessions AS s (id, ttl, expires, beat)
        SELECT 0, longest, now() + longest, now_at FROM distlock.schema WHERE longest > '0'
        ON CONFLICT (id) DO UPDATE SET ttl = greatest(s.ttl, excluded.ttl),
        expires = now() + greatest(s.ttl, excluded.ttl), beat = now_at, ended = false;
    -- Sessions that these tables lack have expired when the quarantine ends.
    UPDATE distlock.schema SET longest =
        (SELECT coalesce(max(ttl), '0') FROM distlock.sessions WHERE id <> 0);
END $$;
