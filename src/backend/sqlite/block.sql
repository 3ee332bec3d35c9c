
-- The block that numbers are drawn from: the last number drawn, and the end. The end is on the disk
-- before any number of the block is used. It equals `distlock_meta.number`, unless a build that
-- does not know blocks has drawn since: then the block is discarded. At most one row.
CREATE TABLE IF NOT EXISTS distlock_block (
    id INTEGER PRIMARY KEY,
    drawn INTEGER NOT NULL,
    reserved INTEGER NOT NULL
);
