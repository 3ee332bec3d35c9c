-- Begins a transaction that comes through a pooler, which may run the next one on another
-- connection. It applies the settings of a session's own connection, until the transaction ends. It
-- fails on any server except the adopted one, after a crash of that server, and if the server's log
-- ends before `shown`. The client would notice none of these.
CREATE FUNCTION distlock.adopt(name bigint, begun_on bigint, shown bigint, for_statement integer,
    for_locks integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF pg_is_in_recovery() THEN
        RAISE EXCEPTION 'the pooler or the pool has switched to a standby' USING ERRCODE = 'DL002';
    END IF;
    PERFORM set_config('distlock.connection', name::text, true),
        set_config('distlock.polls', 'on', true),
        set_config('client_min_messages', 'warning', true),
        set_config('lock_timeout', for_locks::text, true),
        set_config('statement_timeout', for_statement::text, true),
        set_config('plan_cache_mode', 'force_generic_plan', true),
        set_config('enable_seqscan', 'off', true),
        set_config('enable_hashjoin', 'off', true),
        set_config('enable_mergejoin', 'off', true),
        set_config('jit', 'off', true),
        CASE current_setting('synchronous_commit')
            WHEN 'off' THEN set_config('synchronous_commit', 'on', true) END,
        CASE current_setting('session_replication_role')
            WHEN 'replica' THEN set_config('session_replication_role', 'origin', true) END,
        CASE WHEN current_setting('transaction_timeout', true) <> '0'
            THEN set_config('transaction_timeout', '0', true) END;
    IF pg_current_wal_flush_lsn() - '0/0' < shown OR NOT EXISTS (SELECT FROM distlock.runs
        WHERE started = pg_postmaster_start_time() AND run = begun_on)
    THEN
        RAISE EXCEPTION 'the server was restarted, or the pooler or the pool has switched servers'
            USING ERRCODE = 'DL002';
    END IF;
END $$;

-- Returns the name of the server's current run. `fresh`: the name to record if the run has none.
CREATE FUNCTION distlock.run(fresh bigint) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM distlock.runs WHERE started <> pg_postmaster_start_time();
    INSERT INTO distlock.runs (run) VALUES (fresh) ON CONFLICT DO NOTHING;
    RETURN (SELECT run FROM distlock.runs WHERE started = pg_postmaster_start_time());
END $$;
