-- Whose entries are here until when, in microseconds since 1970, by the clock of this server: in a
-- cluster several write here. And a number that rose whenever one was renewed there, which tells the
-- same in the order of events. In version 1 the column `clock` was called `server`. A session with 0
-- in `expires` has ended, and its entries are being removed.
CREATE TABLE IF NOT EXISTS distlock_sessions (
    id BIGINT NOT NULL PRIMARY KEY,
    ttl BIGINT NOT NULL,
    expires BIGINT NOT NULL,
    clock VARBINARY(300) NOT NULL,
    beat BIGINT NOT NULL DEFAULT 0,
    KEY expires (expires)
) ENGINE = InnoDB;

-- Who is alone in a queue: one row for each queue, whose `session` is NULL if nobody is. An entry is
-- put here and taken away by one UPDATE, while the row has the `epoch` of `distlock_schema`. With
-- another one it is closed: others are in the queue, or there are notes on it. `turn` shows which
-- request has written the row. Numbers are even.
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

-- One row for each queue, which a join locks that is not done by that UPDATE; with the last number
-- that such a join was given. No entry in `distlock_entries` has a number below `lowest`: what was
-- deleted there stays as long as a transaction with an old snapshot is open, such as a dump, and is
-- not read.
CREATE TABLE IF NOT EXISTS distlock_queues (
    queue VARBINARY(600) NOT NULL PRIMARY KEY,
    number BIGINT NOT NULL,
    turn BIGINT NOT NULL,
    used BIGINT NOT NULL,
    lowest BIGINT NOT NULL DEFAULT 0,
    KEY used (used)
) ENGINE = InnoDB;

-- Who stands in a queue, by number. Numbers are odd.
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

-- What belongs to no session: guarded writes, and notes on queues.
CREATE TABLE IF NOT EXISTS distlock_data (
    dir VARBINARY(1024) NOT NULL,
    name VARBINARY(1024) NOT NULL,
    value MEDIUMBLOB NOT NULL,
    PRIMARY KEY (dir, name)
) ENGINE = InnoDB;

-- Which tables these are, and the highest number that a queue ever had whose row was put away:
-- numbers are fencing tokens, and never fall. Which server has written here last, and for how long
-- a session was ever to live, in microseconds. The `epoch` is another one with each server. Up to
-- which queue idle rows were looked for last.
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
