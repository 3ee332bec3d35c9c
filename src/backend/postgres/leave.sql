-- Joins several queues, all or none, and only if all of them are empty. For the n-th queue, part n
-- has what part 1 of `distlock.enqueue` has. The last part has what part 2 of that function has.
CREATE FUNCTION distlock.enqueue_all(who bigint, dirs text[], ticks uuid[], labs text[], val bytea)
RETURNS TABLE (part integer, a text, b text, c text, d text, e text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    at integer;
    one record;
    free boolean := true;
    occupied boolean := false;
    quarantined boolean := EXISTS (SELECT FROM distlock.sessions WHERE id = 0);
    alive boolean;
BEGIN
    RETURN QUERY SELECT * FROM distlock.clock();
    PERFORM distlock.require(who, true);
    -- In the order of the names: two requests for the same queues would otherwise deadlock.
    FOR at IN SELECT n FROM unnest(dirs) WITH ORDINALITY AS o (dir, n) ORDER BY dir COLLATE "C" LOOP
        PERFORM distlock.lock_queue(dirs[at]);
    END LOOP;
    occupied := EXISTS (SELECT FROM distlock.members WHERE queue = ANY (dirs)
        AND NOT (session = who AND ticket = ANY (ticks)));
    IF NOT occupied AND NOT quarantined THEN
        FOR at IN 1 .. cardinality(dirs) LOOP
            RETURN QUERY SELECT at, o.a, o.b, o.c, o.d, o.e FROM distlock.enqueue(
                who, dirs[at], ticks[at], labs[at], val, false) AS o WHERE o.part = 1;
        END LOOP;
    ELSE
        PERFORM distlock.unflushed();
        free := false;
    END IF;
    alive := NOT free AND EXISTS (SELECT FROM distlock.members AS m
        JOIN distlock.sessions AS s ON s.id = m.session
        WHERE m.queue = ANY (dirs) AND s.id <> 0 AND s.expires >= now());
    part := cardinality(dirs) + 1;
    a := (occupied AND NOT alive)::text;
    b := (quarantined AND NOT alive)::text;
    RETURN NEXT;
END $$;

-- Leaves a queue. Part 1 has a row if the entry was present. Part 2 has the last number in the
-- queue, and whether the successor's entry is present. All entries that join after the deletion
-- have higher numbers.
--
-- A release that grants nothing is not flushed. The queue then has no other entry, and no client
-- joins while the queue's row is locked.
CREATE FUNCTION distlock.leave(who bigint, dir text, tick uuid, lab text, entry bigint,
    successor bigint) RETURNS TABLE (part integer, a text, b text, c text, d text, e text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    gone bigint;
    others bigint;
BEGIN
    RETURN QUERY SELECT * FROM distlock.clock();
    -- Waits for transactions that have checked the lock.
    SELECT number INTO gone FROM distlock.queues WHERE queue = dir AND session = who
        AND ticket = tick AND label = lab AND number = coalesce(entry, number) FOR UPDATE;
    IF FOUND THEN
        UPDATE distlock.queues SET session = NULL WHERE queue = dir;
        PERFORM distlock.unflushed();
    ELSE
        PERFORM FROM distlock.queues WHERE queue = dir AND EXISTS (SELECT FROM distlock.entries
            WHERE session = who AND ticket = tick AND queue = dir AND moved) FOR UPDATE;
        DELETE FROM distlock.entries WHERE session = who AND ticket = tick AND queue = dir
            AND label = lab AND number = coalesce(entry, number) RETURNING number INTO gone;
        IF NOT FOUND THEN
            PERFORM distlock.require(who, false);
        END IF;
        others := (SELECT max(number) FROM distlock.entries AS e WHERE queue = dir
            AND e.number >= coalesce((SELECT lowest FROM distlock.queues AS q
                WHERE q.queue = dir), 0));
        IF others IS NULL THEN
            others := (SELECT number FROM distlock.queues WHERE queue = dir);
            PERFORM distlock.thin(dir);
        END IF;
    END IF;
    IF gone IS NOT NULL THEN
        part := 1;
        RETURN NEXT;
    END IF;
    part := 2;
    a := greatest(gone, others);
    b := EXISTS (SELECT FROM distlock.entries
        WHERE queue = dir AND number = successor AND session = who);
    RETURN NEXT;
END $$;

-- Lets the next joiner store its entry in the queue's row, if the queue is empty and no client is
-- joining it. This transaction then grants nothing.
CREATE FUNCTION distlock.thin(dir text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    q distlock.queues;
BEGIN
    SELECT * INTO q FROM distlock.queues WHERE queue = dir AND crowded
        FOR NO KEY UPDATE SKIP LOCKED;
    IF FOUND AND NOT EXISTS (
            SELECT FROM distlock.entries WHERE queue = dir AND number >= q.lowest)
        AND NOT EXISTS (SELECT FROM distlock.watches WHERE queue = dir AND number = 0)
    THEN
        IF NOT distlock.wanders(q.moves, q.since) THEN
            UPDATE distlock.queues SET crowded = false WHERE queue = dir;
        END IF;
        PERFORM distlock.unflushed();
    END IF;
END $$;

-- Returns the position of an entry, like part 1 of `distlock.enqueue`. An entry in the queue's row
-- is alone.
CREATE FUNCTION distlock.standing(who bigint, dir text, entry bigint)
RETURNS TABLE (part integer, a text, b text, c text, d text, e text) LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY SELECT * FROM distlock.clock();
    PERFORM distlock.require(who, false);
    PERFORM distlock.confirm();
    RETURN QUERY SELECT * FROM distlock.ahead(dir, entry, true);
    IF NOT FOUND THEN
        RETURN QUERY SELECT * FROM distlock.find(dir, ARRAY[entry]);
    END IF;
END $$;

-- Returns those of two entries that are present, in part 1.
CREATE FUNCTION distlock.present(who bigint, dir text, own bigint, ahead bigint)
RETURNS TABLE (part integer, a text, b text, c text, d text, e text) LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY SELECT * FROM distlock.clock();
    PERFORM distlock.require(who, false);
    PERFORM distlock.confirm();
    RETURN QUERY SELECT * FROM distlock.find(dir, ARRAY[own, ahead]);
END $$;

-- Returns the milliseconds until a session may be removed if it is not renewed. If it seems expired
-- but is still present, this is how long to wait, because the clock has been trusted for too short
-- a time.
CREATE FUNCTION distlock.remaining(s distlock.sessions) RETURNS bigint
LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN s.ended THEN 0 ELSE (extract(epoch FROM greatest(
        least(s.expires - now(), s.ttl) + 0.1 * s.ttl, 0.02 * s.ttl)) * 1000)::bigint END;
$$;

-- Watches an entry, which does not change before the transaction ends. A later deletion finds this
-- watch. Part 1 has the entry, with the time that its session has left. Part 2 has those of this
-- entry and the entry `own` that are present.
CREATE FUNCTION distlock.watch(who bigint, dir text, entry bigint, own bigint)
RETURNS TABLE (part integer, a text, b text, c text, d text, e text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    is_there boolean;
BEGIN
    RETURN QUERY SELECT * FROM distlock.clock();
    PERFORM distlock.require(who, true);
    PERFORM distlock.unflushed();
    UPDATE distlock.entries SET watched = true WHERE queue = dir AND number = entry;
    is_there := FOUND;
    -- Otherwise the entry is in the queue's row, or was deleted and never reappears.
    IF NOT is_there AND EXISTS (SELECT FROM distlock.queues WHERE queue = dir AND number = entry
        AND session IS NOT NULL)
    THEN
        PERFORM distlock.crowd(dir);
        UPDATE distlock.entries SET watched = true WHERE queue = dir AND number = entry;
        is_there := FOUND;
    END IF;
    IF is_there THEN
        INSERT INTO distlock.watches (queue, number, session) VALUES (dir, entry, who)
            ON CONFLICT (queue, number, session) DO UPDATE SET connection = excluded.connection;
        RETURN QUERY SELECT 1, o.number::text, to_hex(o.session), o.ticket::text, o.label,
            distlock.remaining(s)::text FROM distlock.entries AS o
            JOIN distlock.sessions AS s ON s.id = o.session
            WHERE o.queue = dir AND o.number = entry;
    END IF;
    IF own IS NOT NULL THEN
        RETURN QUERY SELECT 2, o.a, o.b, o.c, o.d, o.e
            FROM distlock.find(dir, ARRAY[own, entry]) AS o;
    END IF;
END $$;

-- Watches a queue. No entry joins or leaves it before the transaction ends.
CREATE FUNCTION distlock.watch_queue(who bigint, dir text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    lowest bigint;
BEGIN
    PERFORM distlock.crowd(dir);
    PERFORM distlock.still(dir);
    INSERT INTO distlock.watches (queue, number, session) VALUES (dir, 0, who)
        ON CONFLICT (queue, number, session) DO UPDATE SET connection = excluded.connection;
    -- A deletion of a watched entry that is in progress has already searched for watches, and does
    -- not find this one. This statement waits for it. The update waits for all other deletions.
    lowest := (SELECT q.lowest FROM distlock.queues AS q WHERE queue = dir);
    PERFORM FROM distlock.entries WHERE queue = dir AND number >= lowest AND watched FOR KEY SHARE;
    UPDATE distlock.entries SET watched = true
        WHERE queue = dir AND number >= lowest AND NOT watched;
END $$;

-- Ends a watch on an entry, or with the number 0 on a queue. The server may still execute such a
-- request of a lost connection when the session watches the entry again, on another connection.
CREATE FUNCTION distlock.unwatch(who bigint, dir text, entry bigint) RETURNS void LANGUAGE sql AS $$
    DELETE FROM distlock.watches WHERE queue = dir AND number = entry AND session = who
        AND connection = coalesce(current_setting('distlock.connection', true), '');
$$;
