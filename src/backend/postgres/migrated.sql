-- Above all numbers of version 1.
PERFORM setval('distlock.numbers', floor + 1) FROM distlock.schema;
ALTER TABLE distlock.schema DROP COLUMN floor;
PERFORM distlock.quarantine();
IF NOT EXISTS (
    SELECT FROM pg_index WHERE indrelid = 'distlock.schema'::regclass AND indisprimary)
THEN
    ALTER TABLE distlock.schema ADD PRIMARY KEY (version);
END IF;
