
-- The block that numbers are drawn from: the last one drawn, and the end. The end is on the disk
-- before a number of the block is given. It is `distlock_meta.number`, too, unless a build that
-- knows of no blocks has drawn since: then the block is given up. At most one row.
CREATE TABLE IF NOT EXISTS distlock_block (
    id INTEGER PRIMARY KEY,
    drawn INTEGER NOT NULL,
    reserved INTEGER NOT NULL
);
