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
