-- Whose entries are here until when, in microseconds since 1970, by the clock of this server: in a
-- cluster several write here. And a number that rose whenever one was renewed there, which tells the
-- same in the order of events.
CREATE TABLE IF NOT EXISTS distlock_sessions (
    id BIGINT NOT NULL PRIMARY KEY,
    ttl BIGINT NOT NULL,
    expires BIGINT NOT NULL,
    server VARBINARY(300) NOT NULL,
    beat BIGINT NOT NULL DEFAULT 0,
    KEY expires (expires)
) ENGINE = InnoDB;

-- One row for each queue, which a join locks; with the last number that was given.
CREATE TABLE IF NOT EXISTS distlock_queues (
    queue VARBINARY(600) NOT NULL PRIMARY KEY,
    number BIGINT NOT NULL,
    turn BIGINT NOT NULL,
    used BIGINT NOT NULL,
    KEY used (used)
) ENGINE = InnoDB;

-- Who stands in a queue, by number.
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
-- a session was ever to live, in microseconds.
CREATE TABLE IF NOT EXISTS distlock_schema (
    id TINYINT NOT NULL PRIMARY KEY,
    version INT NOT NULL,
    floor BIGINT NOT NULL,
    server VARBINARY(200) NOT NULL DEFAULT '',
    longest BIGINT NOT NULL DEFAULT 0
) ENGINE = InnoDB;

INSERT IGNORE INTO distlock_schema (id, version, floor) VALUES (1, 1, 0);
