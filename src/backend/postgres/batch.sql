-- Calls of one session that waited together, in one transaction. A batch handles entries that are
-- alone in their queues (see `distlock.queues`). Calls that are missing from the reply must be sent
-- again by themselves: the queue has other entries, or another transaction has locked its row.
--
-- **No batch waits for an existing row**, because all later requests on the connection would wait,
-- too, including the session's renewal. It waits only for a queue's row that another client is
-- inserting. The queues are in the order of their names, so that two batches cannot deadlock.

-- Joins queues. Part 1 has a row for each queue that was joined: its place in the arrays, the
-- entry's number, and whether the queue has notes.
CREATE FUNCTION distlock.join_batch(who bigint, dirs text[], ticks uuid[], labs text[],
    vals bytea[]) RETURNS TABLE (part integer, a text, b text, c text, d text, e text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY SELECT * FROM distlock.clock();
    -- Creates missing rows, without numbers, which are drawn once the rows are locked. Existing
    -- rows are skipped, because an insertion waits for a transaction that updates them.
    INSERT INTO distlock.queues (queue)
        SELECT dir FROM unnest(dirs) WITH ORDINALITY AS o (dir, at)
        WHERE NOT EXISTS (SELECT FROM distlock.queues WHERE queue = dir)
        ORDER BY at ON CONFLICT DO NOTHING;
    RETURN QUERY
        WITH free AS MATERIALIZED (
            SELECT o.* FROM unnest(dirs, ticks, labs, vals)
            WITH ORDINALITY AS o (dir, tick, lab, val, at)
            JOIN distlock.queues AS q ON q.queue = o.dir
            WHERE q.session IS NULL AND NOT q.crowded
            AND EXISTS (SELECT FROM distlock.sessions WHERE id = who AND NOT ended)
            AND NOT EXISTS (SELECT FROM distlock.sessions WHERE id = 0)
            AND moves < 400
            FOR NO KEY UPDATE OF q SKIP LOCKED),
        taken AS (
            UPDATE distlock.queues AS q SET number = nextval('distlock.numbers'), session = who,
            ticket = tick, label = lab, value = val, since = now(),
            page = distlock.page(q.ctid), moves = distlock.moves(q.ctid, page, moves)
            FROM free WHERE q.queue = dir
            RETURNING at, q.number,
                EXISTS (SELECT FROM distlock.data AS o WHERE o.dir = q.queue) AS notes)
        SELECT 1, at::text, number::text, notes::text, NULL, NULL FROM taken;
    -- A batch that grants a lock is flushed.
    IF NOT FOUND THEN
        PERFORM distlock.unflushed();
    END IF;
END $$;

-- Leaves queues that have no other entries. Part 1 has a row for each deleted entry: its place in
-- the arrays, and its number. Part 2 has the places of entries whose rows are locked, for example
-- because a user's transaction has checked them. The batch grants no lock, so it is not flushed.
CREATE FUNCTION distlock.leave_batch(who bigint, dirs text[], ticks uuid[], labs text[],
    numbers bigint[]) RETURNS TABLE (part integer, a text, b text, c text, d text, e text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    left_now bigint;
BEGIN
    RETURN QUERY SELECT * FROM distlock.clock();
    PERFORM distlock.unflushed();
    RETURN QUERY
        WITH held AS MATERIALIZED (
            SELECT o.dir, o.at FROM unnest(dirs, ticks, labs, numbers)
            WITH ORDINALITY AS o (dir, tick, lab, entry, at)
            JOIN distlock.queues AS q ON q.queue = o.dir
            WHERE q.session = who AND q.ticket = tick AND q.label = lab
            AND q.number = coalesce(entry, q.number)
            FOR UPDATE OF q SKIP LOCKED),
        gone AS (
            UPDATE distlock.queues AS q SET session = NULL FROM held WHERE q.queue = dir
            RETURNING at, q.number)
        SELECT 1, at::text, number::text, NULL, NULL, NULL FROM gone;
    GET DIAGNOSTICS left_now = ROW_COUNT;
    IF left_now < cardinality(dirs) THEN
        RETURN QUERY SELECT 2, at::text, NULL, NULL, NULL, NULL
            FROM unnest(dirs, ticks, labs, numbers)
            WITH ORDINALITY AS o (dir, tick, lab, entry, at)
            JOIN distlock.queues AS q ON q.queue = o.dir
            WHERE q.session = who AND q.ticket = tick AND q.label = lab
            AND q.number = coalesce(entry, q.number);
    END IF;
END $$;

-- Does what `distlock.enqueue` does. If another transaction has locked a row, this waits for at
-- most `wait_ms` milliseconds, and then fails. The commit waits as long as usual, because only one
-- transaction at a time commits notifications (`PreCommit_Notify` in
-- https://github.com/postgres/postgres/blob/REL_17_STABLE/src/backend/commands/async.c).
CREATE FUNCTION distlock.enqueue_within(who bigint, dir text, tick uuid, lab text, val bytea,
    if_free boolean, wait_ms integer)
RETURNS TABLE (part integer, a text, b text, c text, d text, e text) LANGUAGE plpgsql AS $$
DECLARE
    usual text := current_setting('lock_timeout');
BEGIN
    PERFORM set_config('lock_timeout', wait_ms::text, true);
    RETURN QUERY SELECT * FROM distlock.enqueue(who, dir, tick, lab, val, if_free);
    PERFORM set_config('lock_timeout', usual, true);
END $$;

-- Does what `distlock.leave` does, after the entry was not found in the queue's row, or the row was
-- found locked. Part -2: the entry is still in that row. If another transaction has locked the
-- entry in `entries`, this waits for at most `wait_ms` milliseconds, and then fails.
CREATE FUNCTION distlock.leave_within(who bigint, dir text, tick uuid, lab text,
    entry bigint, successor bigint, wait_ms integer)
RETURNS TABLE (part integer, a text, b text, c text, d text, e text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    usual text := current_setting('lock_timeout');
BEGIN
    IF EXISTS (SELECT FROM distlock.queues WHERE queue = dir AND session = who
        AND ticket = tick AND label = lab AND number = coalesce(entry, number))
    THEN
        RETURN QUERY SELECT -2, o.a, o.b, o.c, NULL, NULL FROM distlock.clock() AS o;
    ELSE
        PERFORM set_config('lock_timeout', wait_ms::text, true);
        RETURN QUERY SELECT * FROM distlock.leave(who, dir, tick, lab, entry, successor);
        PERFORM set_config('lock_timeout', usual, true);
    END IF;
END $$;
