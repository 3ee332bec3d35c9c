-- Functions with a column `part` return the parts of a reply as rows of text. Part 0 has the time
-- of the server's clock, the end of its log on the disk, and the connection's name.
--
-- The server inlines this function, because it is STABLE and in SQL
-- (https://wiki.postgresql.org/wiki/Inlining_of_SQL_functions).
CREATE FUNCTION distlock.clock() RETURNS TABLE (part integer, a text, b text, c text, d text,
    e text) LANGUAGE sql STABLE AS $$
    SELECT 0, ((extract(epoch FROM now()) * 1000000)::bigint)::text,
        ((pg_current_wal_flush_lsn() - '0/0')::bigint)::text,
        current_setting('distlock.connection', true), NULL::text, NULL::text;
$$;

-- Fails if the session was removed, or is being removed. `writes`: its row is not deleted before
-- the transaction ends. A session that has expired by the clock, and still exists, may be renewed.
CREATE FUNCTION distlock.require(who bigint, writes boolean) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF writes THEN
        PERFORM FROM distlock.sessions WHERE id = who AND NOT ended FOR KEY SHARE;
    ELSE
        PERFORM FROM distlock.sessions WHERE id = who AND NOT ended;
    END IF;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the session has ended' USING ERRCODE = 'DL001';
    END IF;
END $$;

-- Lets a transaction that grants nothing commit without waiting for the disk. The log is one
-- sequence: once a later grant is on the disk, so is this transaction
-- (https://www.postgresql.org/docs/17/wal-async-commit.html). A server with synchronous standbys
-- still waits, because a standby may be promoted without the transaction.
CREATE FUNCTION distlock.unflushed() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('synchronous_standby_names') = '' THEN
        PERFORM set_config('synchronous_commit', 'off', true);
    END IF;
END $$;

-- Makes a transaction that only reads wait for the confirmation of everything that it has read: see
-- `CONFIRMS` in `statements.rs`.
CREATE FUNCTION distlock.confirm() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('synchronous_standby_names') <> '' THEN
        PERFORM pg_logical_emit_message(true, 'distlock', '');
    END IF;
END $$;

-- Returns the page of a version of a row. The server inlines this function and the next two.
CREATE FUNCTION distlock.page(version tid) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT ((version::text::point)[0])::bigint;
$$;

-- Returns the next `moves` of a queue's row, by the version that is changed. If that version is on
-- another page than `page`, the value increases by 100. Otherwise it decreases by 1, down to 0.
CREATE FUNCTION distlock.moves(version tid, page bigint, moves integer) RETURNS integer
LANGUAGE sql STABLE AS $$
    SELECT CASE distlock.page(version) WHEN page THEN greatest(moves - 1, 0) ELSE moves + 100 END;
$$;

-- Returns whether a new entry must be stored in `entries`. Five minutes after the last entry in the
-- queue's row, the row is used again: the transaction with the old snapshot may have ended.
CREATE FUNCTION distlock.wanders(moves integer, since timestamptz) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT moves >= 400 AND since > now() - interval '5 minutes';
$$;

-- Locks and returns the queue's row, which it creates if necessary. It removes an entry in the row
-- whose session has ended.
CREATE FUNCTION distlock.lock_queue(dir text) RETURNS distlock.queues LANGUAGE plpgsql AS $$
DECLARE
    q distlock.queues;
BEGIN
    LOOP
        SELECT * INTO q FROM distlock.queues WHERE queue = dir FOR NO KEY UPDATE;
        EXIT WHEN FOUND;
        INSERT INTO distlock.queues (queue) VALUES (dir) ON CONFLICT DO NOTHING;
    END LOOP;
    IF q.session IS NOT NULL AND NOT EXISTS (
        SELECT FROM distlock.sessions WHERE id = q.session AND NOT ended)
    THEN
        UPDATE distlock.queues SET session = NULL WHERE queue = dir;
        q.session := NULL;
    END IF;
    RETURN q;
END $$;

-- Moves the entry in the queue's row to `entries`. No client joins before the transaction ends.
CREATE FUNCTION distlock.crowd(dir text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    q distlock.queues := distlock.lock_queue(dir);
BEGIN
    -- From now on the entry is deleted with its session, which is not removed in the meantime.
    INSERT INTO distlock.entries (queue, number, session, ticket, label, value, since, moved)
        SELECT dir, q.number, id, q.ticket, q.label, q.value, q.since, true
            FROM distlock.sessions WHERE id = q.session AND NOT ended FOR KEY SHARE;
    -- All later numbers are higher than the last one in this row.
    IF NOT q.crowded THEN
        UPDATE distlock.queues SET session = NULL, crowded = true,
            lowest = coalesce(number, lowest) WHERE queue = dir;
    END IF;
END $$;

-- Makes the deletion of a moved entry wait for users' transactions that locked it while it was in
-- the queue's row. A later check with an older snapshot fails, because the row has changed for it:
-- an update after FOR UPDATE conflicts with FOR KEY SHARE
-- (https://www.postgresql.org/docs/17/explicit-locking.html#LOCKING-ROWS).
CREATE FUNCTION distlock.wait_for_checks() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM distlock.queues WHERE queue = OLD.queue FOR UPDATE;
    UPDATE distlock.queues SET crowded = true WHERE queue = OLD.queue;
    RETURN OLD;
END $$;

CREATE TRIGGER moved BEFORE DELETE ON distlock.entries
    FOR EACH ROW WHEN (OLD.moved) EXECUTE FUNCTION distlock.wait_for_checks();

-- Returns the entry with this number and the two ahead of it, nearest first. The last column
-- returns whether the queue has anything else. The order is that of the table's numbers: a plain
-- `number` would be the returned text, in which 9 follows 10.
CREATE FUNCTION distlock.ahead(dir text, entry bigint, others boolean) RETURNS TABLE (part integer,
    a text, b text, c text, d text, e text) LANGUAGE sql STABLE AS $$
    SELECT 1, number::text, to_hex(session), ticket::text, label, others::text
        FROM distlock.entries AS o WHERE queue = dir AND o.number <= entry
        AND o.number >= coalesce((SELECT lowest FROM distlock.queues AS q WHERE q.queue = dir), 0)
        ORDER BY o.number DESC LIMIT 3;
$$;

-- Returns the entries with these numbers, wherever they are stored.
CREATE FUNCTION distlock.find(dir text, wanted bigint[]) RETURNS TABLE (part integer, a text,
    b text, c text, d text, e text) LANGUAGE sql STABLE AS $$
    SELECT 1, number::text, to_hex(session), ticket::text, label, NULL
        FROM distlock.entries WHERE queue = dir AND number = ANY (wanted)
    UNION ALL SELECT 1, number::text, to_hex(session), ticket::text, label, NULL
        FROM distlock.queues WHERE queue = dir AND session IS NOT NULL AND number = ANY (wanted);
$$;

-- Joins a queue; with `if_free`, only if the queue is empty. Part 1 has the own entry and the two
-- ahead of it, or no rows. With `if_free`, part 2 has two flags, for a queue that was not joined:
-- there are entries, all of sessions that have expired by the clock; and nothing is granted at
-- present, and no entry of a live session is known.
--
-- While nothing is granted (see `distlock.recognize`), session 0 joins just ahead of the entry.
-- With `if_free` the entry is not added then.
CREATE FUNCTION distlock.enqueue(who bigint, dir text, tick uuid, lab text, val bytea,
    if_free boolean) RETURNS TABLE (part integer, a text, b text, c text, d text, e text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    q distlock.queues;
    quarantined boolean;
    occupied boolean;
    mine bigint;
    head bigint;
    alive boolean;
    notes boolean;
    notified boolean := false;
BEGIN
    RETURN QUERY SELECT * FROM distlock.clock();
    PERFORM distlock.require(who, true);
    IF NOT if_free THEN
        -- Otherwise it could be removed before this transaction commits, which would leave its new
        -- entry ahead of this one for ever. Sessions are locked before queues.
        PERFORM FROM distlock.sessions WHERE id = 0 FOR KEY SHARE;
    END IF;
    q := distlock.lock_queue(dir);
    notes := EXISTS (SELECT FROM distlock.data AS o WHERE o.dir = enqueue.dir);
    IF q.session = who AND q.ticket = tick THEN
        mine := q.number;
    ELSE
        occupied := q.session IS NOT NULL;
        IF q.crowded THEN
            head := (SELECT number FROM distlock.entries WHERE queue = dir AND number >= q.lowest
                ORDER BY number LIMIT 1);
            occupied := head IS NOT NULL;
            notified := EXISTS (SELECT FROM distlock.watches WHERE queue = dir AND number = 0);
        END IF;
        IF occupied THEN
            SELECT number INTO mine FROM distlock.entries
                WHERE session = who AND ticket = tick AND queue = dir;
        END IF;
        quarantined := EXISTS (SELECT FROM distlock.sessions WHERE id = 0);
        IF mine IS NULL AND NOT occupied AND NOT quarantined AND NOT notified
            AND NOT distlock.wanders(q.moves, q.since)
        THEN
            UPDATE distlock.queues SET crowded = false, number = nextval('distlock.numbers'),
                session = who, ticket = tick, label = lab, value = val, since = now(),
                page = distlock.page(ctid),
                moves = CASE WHEN moves >= 400 THEN 200
                    ELSE distlock.moves(ctid, page, moves) END
                WHERE queue = dir RETURNING number INTO mine;
            q.session := who;
        ELSIF mine IS NULL AND NOT (if_free AND (occupied OR quarantined)) THEN
            IF NOT q.crowded THEN
                PERFORM distlock.crowd(dir);
                q.lowest := coalesce(q.number, q.lowest);
            END IF;
            q.session := NULL;
            IF quarantined THEN
                INSERT INTO distlock.entries
                    (queue, number, session, ticket, label, value, watched)
                    VALUES (dir, nextval('distlock.numbers'), 0, tick, 'nobody', convert_to(
                        'distlock: the database has failed over, was restored, or has new tables',
                        'UTF8'), notified);
                occupied := true;
            END IF;
            INSERT INTO distlock.entries (queue, number, session, ticket, label, value, watched)
                VALUES (dir, nextval('distlock.numbers'), who, tick, lab, val, notified)
                RETURNING number INTO mine;
            head := coalesce(head, CASE WHEN NOT quarantined THEN mine END);
            -- Not raised at every join: an old snapshot keeps all versions of this row, too.
            IF q.crowded AND head > q.lowest + 1000 THEN
                UPDATE distlock.queues SET lowest = head WHERE queue = dir;
            END IF;
        ELSE
            q.session := NULL;
        END IF;
    END IF;
    IF mine IS NOT NULL AND q.session = who THEN
        part := 1; a := mine; b := to_hex(who); c := tick; d := lab; e := notes;
        RETURN NEXT;
    ELSIF mine IS NOT NULL THEN
        notes := notes
            OR EXISTS (SELECT FROM distlock.entries WHERE queue = dir AND number >= q.lowest
                AND number <> mine);
        RETURN QUERY SELECT * FROM distlock.ahead(dir, mine, notes);
    END IF;
    IF mine IS NULL THEN
        PERFORM distlock.unflushed();
    END IF;
    IF if_free THEN
        -- The search ends at the first live session, because queues may be long.
        alive := mine IS NULL AND EXISTS (SELECT FROM distlock.members AS m
            JOIN distlock.sessions AS s ON s.id = m.session
            WHERE m.queue = dir AND s.id <> 0 AND s.expires >= now());
        part := 2; a := (occupied AND NOT alive)::text; b := (quarantined AND NOT alive)::text;
        c := NULL; d := NULL; e := NULL;
        RETURN NEXT;
    END IF;
END $$;
