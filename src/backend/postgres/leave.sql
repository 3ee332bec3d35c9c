-- Joins several queues, if nobody is in any of them: all or none. Part n is what part 1 of
-- `distlock.enqueue` is, for the n-th queue; the last one is what its part 2 is.
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
    -- In the order of the names, as two who ask for the same would wait for each other otherwise.
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

-- Leaves a queue. Part 1 has a row if the entry was there; part 2 is the last number in the queue,
-- which no entry has that joined after the deletion, and whether the successor's is there.
--
-- A release that grants to nobody is not flushed: while the queue's row is locked nobody joins, and
-- nobody else is in the queue.
CREATE FUNCTION distlock.leave(who bigint, dir text, tick uuid, lab text, entry bigint,
    successor bigint) RETURNS TABLE (part integer, a text, b text, c text, d text, e text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    gone bigint;
    others bigint;
BEGIN
    RETURN QUERY SELECT * FROM distlock.clock();
    -- After those who have checked that it is held.
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

-- Lets the next one who joins have its entry in the queue's row, if nobody is in the queue and
-- nobody joins at this moment. What this transaction does grants to nobody, then.
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

-- Where an entry stands: as part 1 of `distlock.enqueue`. One in the queue's row is alone.
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

-- What there is of two entries: part 1.
CREATE FUNCTION distlock.present(who bigint, dir text, own bigint, ahead bigint)
RETURNS TABLE (part integer, a text, b text, c text, d text, e text) LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY SELECT * FROM distlock.clock();
    PERFORM distlock.require(who, false);
    PERFORM distlock.confirm();
    RETURN QUERY SELECT * FROM distlock.find(dir, ARRAY[own, ahead]);
END $$;

-- How many milliseconds it takes, at least, until a session is removed that is not renewed. Or how
-- long to wait if it is not yet, because what is believed of the clock is too young.
CREATE FUNCTION distlock.remaining(s distlock.sessions) RETURNS bigint
LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN s.ended THEN 0 ELSE (extract(epoch FROM greatest(
        least(s.expires - now(), s.ttl) + 0.1 * s.ttl, 0.02 * s.ttl)) * 1000)::bigint END;
$$;

-- Watches an entry, which stays as it is until the transaction's end: its deletion then finds this
-- watch. Part 1 is the entry, with how long its session has left. Part 2 is what there is of it and
-- of the entry `own`.
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
    -- Else it is in the queue's row, or gone: it does not come back.
    IF NOT is_there AND EXISTS (SELECT FROM distlock.queues WHERE queue = dir AND number = entry
        AND session IS NOT NULL)
    THEN
        PERFORM distlock.crowd(dir);
        UPDATE distlock.entries SET watched = true WHERE queue = dir AND number = entry;
        is_there := FOUND;
    END IF;
    IF is_there THEN
        INSERT INTO distlock.watches (queue, number, session) VALUES (dir, entry, who)
            ON CONFLICT DO NOTHING;
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

-- Watches a queue. Until the transaction's end nobody joins it, and nobody leaves.
CREATE FUNCTION distlock.watch_queue(who bigint, dir text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    lowest bigint;
BEGIN
    PERFORM distlock.crowd(dir);
    PERFORM distlock.still(dir);
    INSERT INTO distlock.watches (queue, number, session) VALUES (dir, 0, who)
        ON CONFLICT DO NOTHING;
    -- An entry that is being deleted has looked for watches already, and does not find this one: it
    -- is waited for. The update waits for the others.
    lowest := (SELECT q.lowest FROM distlock.queues AS q WHERE queue = dir);
    PERFORM FROM distlock.entries WHERE queue = dir AND number >= lowest AND watched FOR KEY SHARE;
    UPDATE distlock.entries SET watched = true
        WHERE queue = dir AND number >= lowest AND NOT watched;
END $$;
