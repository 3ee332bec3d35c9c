-- Takes the tables over from the clients of version 1 in one transaction, which waits for their
-- pending transactions. Afterwards none of their requests finds its session, or the functions that
-- the request begins with. Their holders give up at their deadlines, or when they learn that their
-- session has gone, at most the longest TTL later. Nothing is granted for 1.1 times that TTL. See
-- docs/design/adding-a-store.md, "Another version of the tables".
LOCK TABLE distlock.sessions, distlock.queues, distlock.entries, distlock.watches
    IN ACCESS EXCLUSIVE MODE;
-- The first builds of version 1 created this table without a key. Rows of a published table without
-- a key cannot be changed
-- (https://www.postgresql.org/docs/17/logical-replication-publication.html).
IF NOT EXISTS (
    SELECT FROM pg_index WHERE indrelid = 'distlock.schema'::regclass AND indisprimary)
THEN
    ALTER TABLE distlock.schema ADD PRIMARY KEY (version);
END IF;
UPDATE distlock.schema SET version = 2,
    floor = greatest(floor, (SELECT max(number) FROM distlock.queues),
        (SELECT max(number) FROM distlock.entries)),
    longest = greatest(longest, (SELECT max(ttl) FROM distlock.sessions));
DROP TABLE distlock.watches, distlock.entries, distlock.queues, distlock.sessions;
DROP TRIGGER changed ON distlock.data;
DROP FUNCTION distlock.entry_changed(), distlock.data_changed(), distlock.tell(text, bigint, text),
    distlock.enter(bigint, boolean), distlock.recognize(text), distlock.still(text);
ALTER TABLE distlock.schema ADD COLUMN tidied text NOT NULL DEFAULT '',
    ADD COLUMN tidied_at timestamptz NOT NULL DEFAULT '-infinity';
