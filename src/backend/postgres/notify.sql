-- Notifies the sessions that watch an entry or its queue; with the number 0, only those that watch
-- the queue. A session that misses the notification finds the change by its recheck.
CREATE FUNCTION distlock.notify(dir text, entry bigint, what text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    watch distlock.watches;
BEGIN
    FOR watch IN
        DELETE FROM distlock.watches WHERE queue = dir AND number IN (0, entry) RETURNING *
    LOOP
        -- The notification is a hint. If the server's queue is full, it would make the change fail.
        CONTINUE WHEN watch.polled OR pg_notification_queue_usage() > 0.9;
        PERFORM pg_notify('distlock_' || to_hex(watch.session), what || ' ' || entry);
    END LOOP;
END $$;

-- Runs when a watched entry is deleted, or gets another label and thereby another key.
CREATE FUNCTION distlock.entry_ended() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM distlock.notify(OLD.queue, OLD.number, OLD.queue || '/' || to_hex(OLD.session) || '-'
        || OLD.ticket || CASE OLD.label WHEN '' THEN '' ELSE '.' || OLD.label END);
    RETURN NULL;
END $$;

-- Runs at any other change, and notifies the sessions that watch the queue.
CREATE FUNCTION distlock.queue_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM distlock.notify(NEW.queue, 0, NEW.queue || '/');
    RETURN NULL;
END $$;

-- No function runs for an entry that is not watched.
CREATE TRIGGER deleted AFTER DELETE ON distlock.entries
    FOR EACH ROW WHEN (OLD.watched) EXECUTE FUNCTION distlock.entry_ended();
CREATE TRIGGER relabelled AFTER UPDATE OF label ON distlock.entries
    FOR EACH ROW WHEN (OLD.watched AND NEW.label <> OLD.label)
    EXECUTE FUNCTION distlock.entry_ended();
CREATE TRIGGER rewritten AFTER UPDATE OF value ON distlock.entries
    FOR EACH ROW WHEN (OLD.watched AND NEW.label = OLD.label)
    EXECUTE FUNCTION distlock.queue_changed();
CREATE TRIGGER joined AFTER INSERT ON distlock.entries
    FOR EACH ROW WHEN (NEW.watched) EXECUTE FUNCTION distlock.queue_changed();

-- Prevents writes of data below a queue while a session begins to watch that queue. Such a write
-- has no row of the queue to lock. Queues share 64 locks, because the server has room for only some
-- thousand.
CREATE FUNCTION distlock.still(dir text) RETURNS void LANGUAGE sql AS $$
    SELECT pg_advisory_xact_lock(7234316, hashtext(dir) & 63);
$$;

CREATE FUNCTION distlock.data_changed() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    dir text := coalesce(NEW.dir, OLD.dir);
BEGIN
    PERFORM pg_advisory_xact_lock_shared(7234316, hashtext(dir) & 63);
    PERFORM distlock.notify(dir, 0, dir || '/');
    RETURN NULL;
END $$;

CREATE TRIGGER changed AFTER INSERT OR UPDATE OR DELETE ON distlock.data
    FOR EACH ROW EXECUTE FUNCTION distlock.data_changed();
