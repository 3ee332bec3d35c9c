-- The sessions. `expires`: when the session expires, in microseconds since 1970 by the clock of the
-- server `clock`: in a cluster, several servers write here. Other clients remove the session 0.1
-- TTL later at the earliest. The value 0 means that the session has ended, and that its entries are
-- being removed. `beat`: a number of that server that rises with every renewal, independently of
-- the clock. In version 1 the column `clock` was called `server`.
CREATE TABLE IF NOT EXISTS distlock_sessions (
    id BIGINT NOT NULL PRIMARY KEY,
    ttl BIGINT NOT NULL,
    expires BIGINT NOT NULL,
    clock VARBINARY(300) NOT NULL,
    beat BIGINT NOT NULL DEFAULT 0,
    KEY expires (expires)
) ENGINE = InnoDB;

-- The entries that are alone in their queues: one row for each queue, whose `session` is NULL if
-- there is no such entry. One UPDATE stores or removes an entry, while the row has the `epoch` of
-- `distlock_schema`. A row with another epoch is closed, because the queue may have other entries
-- or notes. `turn`: the random number of a request, which marks the rows that it has written.
-- Numbers are even.
CREATE TABLE IF NOT EXISTS distlock_alone (
    queue VARBINARY(600) NOT NULL PRIMARY KEY,
    epoch BIGINT NOT NULL,
    number BIGINT NOT NULL,
    session BIGINT,
    ticket VARBINARY(36),
    label VARBINARY(255),
    value MEDIUMBLOB,
    version BIGINT NOT NULL,
    since BIGINT NOT NULL,
    turn BIGINT NOT NULL DEFAULT 0,
    checks BIGINT NOT NULL DEFAULT 0,
    KEY session (session),
    CONSTRAINT distlock_alone_session FOREIGN KEY (session)
        REFERENCES distlock_sessions (id) ON DELETE SET NULL
) ENGINE = InnoDB;

-- One row for each queue, which a join locks unless that UPDATE is sufficient. `number`: the last
-- number drawn for `distlock_entries`. No entry of that table has a number below `lowest`. While a
-- transaction with an old snapshot is open, such as a dump, deleted rows remain there. Searches
-- begin at `lowest`, and do not read them.
CREATE TABLE IF NOT EXISTS distlock_queues (
    queue VARBINARY(600) NOT NULL PRIMARY KEY,
    number BIGINT NOT NULL,
    turn BIGINT NOT NULL,
    used BIGINT NOT NULL,
    lowest BIGINT NOT NULL DEFAULT 0,
    KEY used (used)
) ENGINE = InnoDB;

-- The other entries of the queues, by number. Numbers are odd.
CREATE TABLE IF NOT EXISTS distlock_entries (
    queue VARBINARY(600) NOT NULL,
    number BIGINT NOT NULL,
    session BIGINT NOT NULL,
    ticket VARBINARY(36) NOT NULL,
    label VARBINARY(255) NOT NULL,
    value MEDIUMBLOB NOT NULL,
    version BIGINT NOT NULL,
    since BIGINT NOT NULL,
    checks BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (queue, number),
    UNIQUE KEY ticket (session, ticket),
    CONSTRAINT distlock_entries_session FOREIGN KEY (session)
        REFERENCES distlock_sessions (id) ON DELETE CASCADE
) ENGINE = InnoDB;

-- Data that belongs to no session: guarded writes, and notes on queues.
CREATE TABLE IF NOT EXISTS distlock_data (
    dir VARBINARY(1024) NOT NULL,
    name VARBINARY(1024) NOT NULL,
    value MEDIUMBLOB NOT NULL,
    PRIMARY KEY (dir, name)
) ENGINE = InnoDB;

-- The version of these tables. `floor`: no queue whose row was removed had a higher number. Numbers
-- are fencing tokens, and never decrease. `server`: the server that last wrote here. `longest`: the
-- longest TTL of any session, in microseconds. `epoch`: another server draws another one. `tidied`:
-- the last queue that was checked for idle rows, or an empty text after all were checked.
CREATE TABLE IF NOT EXISTS distlock_schema (
    id TINYINT NOT NULL PRIMARY KEY,
    version INT NOT NULL,
    floor BIGINT NOT NULL,
    server VARBINARY(200) NOT NULL DEFAULT '',
    longest BIGINT NOT NULL DEFAULT 0,
    epoch BIGINT NOT NULL DEFAULT 1,
    tidied VARBINARY(600) NOT NULL DEFAULT ''
) ENGINE = InnoDB;

INSERT IGNORE INTO distlock_schema (id, version, floor) VALUES (1, 2, 0);
