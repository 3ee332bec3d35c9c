-- Takes the tables of version 1 from the clients of that version: in one transaction, which waits
-- for those of theirs that are under way. Afterwards none of their requests finds its session, or
-- the functions that it begins with. Their holders give up at their deadlines, or as soon as they
-- are told that their session is gone: before the longest TTL of all of them is over, and until
-- then nothing is granted. See docs/design/adding-a-store.md, "Another version of the tables".
LOCK TABLE distlock.sessions, distlock.queues, distlock.entries, distlock.watches
    IN ACCESS EXCLUSIVE MODE;
-- Its first builds made this table without a key, and rows of such a table that is published cannot
-- be changed (https://www.postgresql.org/docs/17/logical-replication-publication.html).
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
