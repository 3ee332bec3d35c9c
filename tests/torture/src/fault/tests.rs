use super::*;

#[test]
fn idle_workers_are_stopped_for_about_a_ttl() {
    let ttl = Duration::from_secs(10);
    for _ in 0..100 {
        let time = Kind::SigstopBeforeLock.duration(ttl);
        assert!((ttl * 9 / 10..=ttl * 3 / 2).contains(&time), "{time:?}");
    }
}

#[test]
fn lists_name_kinds() {
    let parse = |list| Kind::parse(list, Store::Etcd);
    assert_eq!(parse("none"), Ok(Vec::new()));
    assert_eq!(parse("all").map(|kinds| kinds.len()), Ok(29));
    assert_eq!(parse("delay, sigkill"), Ok(vec![Kind::Delay, Kind::Sigkill]));
    let paused =
        [Kind::Server(Deed::Pause, Role::Leader), Kind::Server(Deed::Pause, Role::Follower)];
    assert_eq!(parse("pause"), Ok([&paused[..], &[Kind::PauseQuorum]].concat()));
    assert_eq!(parse("pause,-pause-quorum"), Ok(paused.to_vec()));
    let stopped = vec![Kind::Sigstop, Kind::SigstopIdle, Kind::SigstopBeforeLock];
    assert_eq!(parse("sigstop"), Ok(stopped));
    assert_eq!(parse("loss,slow"), Ok([Deed::Loss, Deed::Slow].map(Kind::Servers).to_vec()));
    assert_eq!(parse("to"), Ok(vec![Kind::ToServer, Kind::ToClient]));
    assert!(
        parse("delay,fire")
            .is_err_and(|error| error.contains("fire") && error.contains("blackhole"))
    );
}

#[test]
fn kinds_apply_to_stores() {
    for (store, count) in [
        (Store::Etcd, 29),
        (Store::ZooKeeper, 29),
        (Store::Postgres, 24),
        (Store::PostgresStandby, 32),
        (Store::PostgresAsync, 32),
        (Store::Pgbouncer, 24),
        (Store::Mysql, 24),
        (Store::Galera, 30),
        (Store::Sqlite, 8),
        (Store::Redis, 32),
        (Store::RedisEverysec, 32),
        (Store::RedisWiped, 30),
        (Store::Valkey, 32),
        (Store::RedisReplicas, 35),
        (Store::RedisAsync, 35),
        (Store::RedisSentinel, 28),
        (Store::RedisCluster, 29),
        (Store::Redlock, 24),
    ] {
        assert_eq!(Kind::all(store).len(), count, "{store}");
        assert_eq!(Kind::parse("all", store), Ok(Kind::all(store)));
    }
    assert_eq!(Kind::parse("kill", Store::Mysql), Ok(vec![Kind::Servers(Deed::Kill)]));
    for (word, store) in [
        ("strangers", Store::Postgres),
        ("clock", Store::Etcd),
        ("promotion", Store::Postgres),
        ("conflicts", Store::PostgresStandby),
        ("pause-leader", Store::Galera),
        ("hang-follower", Store::Galera),
        ("delay", Store::Sqlite),
        ("delay", Store::RedisSentinel),
        ("migration", Store::RedisSentinel),
        ("failover", Store::RedisReplicas),
        ("part-leader", Store::RedisReplicas),
        ("operator", Store::Redlock),
        ("wipe-server", Store::Redlock),
        ("lock-wait", Store::Redis),
        ("rewind", Store::Valkey),
        ("wipe", Store::Valkey),
        ("clock", Store::RedisWiped),
        ("busy", Store::Mysql),
        // None of these applies.
        ("kill", Store::Sqlite),
    ] {
        let error = Kind::parse(&format!("sigkill,{word}"), store).unwrap_err();
        assert!(error.starts_with(&format!("{word} does not apply to {store}")), "{error}");
        assert!(error.contains("sigstop-idle"), "{error}");
    }
    // Excluding a kind that does not apply is allowed.
    assert_eq!(Kind::parse("operator,-clock", Store::Sqlite), Ok(vec![Kind::Operator]));
}
