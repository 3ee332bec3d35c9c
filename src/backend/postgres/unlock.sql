-- Deletes an entry in a user's transaction, and returns a row if the entry was present. In that
-- case no other client has been granted the lock since, nor will be before the transaction ends.
-- Sessions that watch the entry are notified when it ends. Like `distlock.leave`, this waits for
-- transactions that have checked the lock. It fails if the snapshot is older than the entry's last
-- change. It locks no session's row, because a renewal would make every older snapshot fail.
--
-- The settings of the transaction are the user's. The exception is a release that lets the next
-- waiter in: it is part of that grant, and is flushed.
CREATE FUNCTION distlock.unlock(dir text, entry bigint) RETURNS SETOF integer LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM distlock.queues AS q WHERE queue = dir AND number = entry AND EXISTS (
        SELECT FROM distlock.sessions AS s WHERE s.id = q.session AND NOT s.ended) FOR UPDATE;
    IF FOUND THEN
        UPDATE distlock.queues SET session = NULL WHERE queue = dir;
        RETURN NEXT 1;
        RETURN;
    END IF;
    -- Like `distlock.watch_queue`, this locks the queue's row before its entries.
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

