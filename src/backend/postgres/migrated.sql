-- Numbers continue above all those of version 1.
PERFORM setval('distlock.numbers', floor + 1) FROM distlock.schema;
ALTER TABLE distlock.schema DROP COLUMN floor;
PERFORM distlock.quarantine();
