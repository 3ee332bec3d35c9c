-- Deletes an entry in a transaction of the user's own, and returns a row if it was there: the lock
-- was not granted to another client since, and is not before the transaction ends. Sessions that
-- watch the entry are notified at its end. As `distlock.leave` it comes after those who have
-- checked that the lock is held, and fails by a snapshot that is older than the entry's last
-- change. It locks no session's row: a renewal would let every older snapshot fail.
--
-- The transaction's settings are its user's. But a release that lets the next one in is a part of
-- that grant, and is flushed.
CREATE FUNCTION distlock.unlock(dir text, entry bigint) RETURNS SETOF integer LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM distlock.queues AS q WHERE queue = dir AND number = entry AND EXISTS (
        SELECT FROM distlock.sessions AS s WHERE s.id = q.session AND NOT s.ended) FOR UPDATE;
    IF FOUND THEN
        UPDATE distlock.queues SET session = NULL WHERE queue = dir;
        RETURN NEXT 1;
        RETURN;
    END IF;
    -- `distlock.watch_queue` locks the queue's row before its entries, too.
    PERFORM FROM distlock.queues WHERE queue = dir AND EXISTS (SELECT FROM distlock.entries AS e
        WHERE e.queue = dir AND e.number = entry AND moved) FOR UPDATE;
    DELETE FROM distlock.entries AS e WHERE queue = dir AND number = entry AND EXISTS (
        SELECT FROM distlock.sessions AS s WHERE s.id = e.session AND NOT s.ended);
    IF FOUND THEN
        IF current_setting('synchronous_commit') = 'off' THEN
            PERFORM set_config('synchronous_commit', 'on', true);
        END IF;
        RETURN NEXT 1;
    END IF;
END $$;

