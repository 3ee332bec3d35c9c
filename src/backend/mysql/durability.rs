//! Reads what a server's settings and replicas guarantee.

use crate::backend::{Durability, FailoverBehavior, sql::outcome::Outcome};

/// Reads the names and values of these settings and counters. They differ between MySQL and
/// MariaDB, so some may be missing.
pub(super) const SQL: [&str; 2] = [
    "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('innodb_flush_log_at_trx_commit', \
     'innodb_doublewrite', 'log_bin', 'sync_binlog', 'wsrep_provider_options', \
     'group_replication_group_name')",
    "SHOW GLOBAL STATUS WHERE Variable_name IN ('Slaves_connected', 'Replicas_connected', \
     'wsrep_cluster_size', 'Innodb_redo_log_enabled')",
];

/// Reads the rows of [`SQL`].
pub(super) fn read(outcomes: &[Outcome]) -> Durability {
    let value = |name: &str| {
        let rows = outcomes.iter().flat_map(Outcome::rows);
        let mut found = rows.filter(|row| row.text(0) == Some(name));
        found.next().and_then(|row| row.text(1)).unwrap_or_default().to_owned()
    };
    let mut reasons = Vec::new();
    // MariaDB's 3 flushes more often than 1 does.
    if !matches!(value("innodb_flush_log_at_trx_commit").as_str(), "1" | "3") {
        reasons.push(
            "innodb_flush_log_at_trx_commit is not 1: a crash may undo confirmed commits. Set it \
             to 1"
                .to_owned(),
        );
    }
    // MySQL's setting for the load of a new server.
    if value("Innodb_redo_log_enabled") == "OFF" {
        reasons.push(
            "the redo log is disabled: a crash may corrupt the tables. Run ALTER INSTANCE ENABLE \
             INNODB REDO_LOG"
                .to_owned(),
        );
    }
    let logs = value("log_bin") == "ON";
    // With a binary log InnoDB does not flush its own commits: recovery rolls back each transaction
    // that is missing from the binary log.
    if logs && value("sync_binlog") != "1" {
        reasons.push(
            "the binary log is on, and sync_binlog is not 1: a crash may undo confirmed commits, \
             and tokens may be issued twice. Set sync_binlog to 1"
                .to_owned(),
        );
    }
    // MySQL's DETECT_ONLY repairs no torn pages, and MariaDB's `fast` does not sync data files:
    // https://dev.mysql.com/doc/refman/8.4/en/innodb-doublewrite-buffer.html
    // https://github.com/MariaDB/server/pull/3091
    match value("innodb_doublewrite").as_str() {
        "ON" | "1" | "DETECT_AND_RECOVER" => {}
        "" => reasons.push(
            "the server does not report innodb_doublewrite: a crash may corrupt the tables"
                .to_owned(),
        ),
        other => reasons.push(format!(
            "innodb_doublewrite is {other}: a crash may corrupt the tables. Set it to ON"
        )),
    }
    let replicas = [value("Slaves_connected"), value("Replicas_connected")];
    match replicas.iter().filter_map(|count| count.parse::<u32>().ok()).max() {
        Some(0) => {}
        Some(replicas) => reasons.push(format!(
            "commits are confirmed before all replicas have applied them ({replicas} connected), \
             so a promoted replica may lack held locks"
        )),
        // MySQL has no such counter.
        None if logs => reasons.push(
            "the binary log is on, and the server does not report whether replicas read it: a \
             promoted replica may lack held locks. If there are no replicas, start the server with \
             --skip-log-bin"
                .to_owned(),
        ),
        None => {}
    }
    if !value("group_replication_group_name").is_empty() {
        reasons.push(
            "group_replication_group_name is set, so the server may be a member of a replication \
             group: distlock is not tested with group replication"
                .to_owned(),
        );
    }
    // A server without a cluster reports no size, or 0.
    let members = value("wsrep_cluster_size").parse().unwrap_or(0);
    let options = value("wsrep_provider_options").replace(' ', "");
    if members > 0 && (options.contains("ignore_sb=true") || options.contains("ignore_quorum=true"))
    {
        reasons.push(
            "pc.ignore_sb or pc.ignore_quorum is on: both sides of a partition may grant the same \
             lock. Turn both off"
                .to_owned(),
        );
    }
    if members > 0 {
        reasons.push(
            "the server is a member of a Galera cluster: confirmed commits may be lost when a \
             member is killed during a network partition"
                .to_owned(),
        );
    }
    let exclusive = reasons.is_empty();
    let failover =
        if exclusive { FailoverBehavior::Blocks } else { FailoverBehavior::MayLoseGrants };
    Durability { exclusive, failover, reasons }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_and_replicas_decide() {
        let flush = ("innodb_flush_log_at_trx_commit", "1");
        let none = ("Slaves_connected", "0");
        let twice = |twice| ("innodb_doublewrite", twice);
        let options = |options| ("wsrep_provider_options", options);
        for (settings, exclusive, reasons) in [
            (&[flush, ("wsrep_cluster_size", "0")][..], true, 0),
            (&[flush, ("Slaves_connected", "0"), ("log_bin", "ON"), ("sync_binlog", "1")], true, 0),
            (&[flush, none, ("log_bin", "ON"), ("sync_binlog", "0")], false, 1),
            (&[flush, none, ("log_bin", "ON"), ("sync_binlog", "1000")], false, 1),
            (&[flush, none, ("log_bin", "OFF"), ("sync_binlog", "0")], true, 0),
            // MySQL: no counter of replicas.
            (&[flush, ("log_bin", "ON"), ("sync_binlog", "1")], false, 1),
            (&[flush, ("log_bin", "OFF")], true, 0),
            (&[("innodb_flush_log_at_trx_commit", "3")], true, 0),
            (&[("innodb_flush_log_at_trx_commit", "2")], false, 1),
            (&[], false, 1),
            (&[flush, twice("OFF")], false, 1),
            (&[flush, twice("DETECT_AND_RECOVER")], true, 0),
            (&[flush, twice("DETECT_ONLY")], false, 1),
            (&[flush, twice("fast")], false, 1),
            (&[flush, twice("")], false, 1),
            (&[flush, ("Slaves_connected", "2")], false, 1),
            (&[flush, ("Replicas_connected", "1")], false, 1),
            (&[flush, ("wsrep_cluster_size", "3")], false, 1),
            (
                &[flush, ("wsrep_cluster_size", "3"), options("a.b = 1; pc.ignore_sb = true")],
                false,
                2,
            ),
            (&[flush, ("group_replication_group_name", "a")], false, 1),
            (&[flush, ("Innodb_redo_log_enabled", "ON")], true, 0),
            (&[flush, ("Innodb_redo_log_enabled", "OFF")], false, 1),
        ] {
            // The first row of a name counts.
            let rows = settings.iter().chain(&[("innodb_doublewrite", "ON")]);
            let rows: Vec<_> = rows.map(|(name, value)| Outcome::of_one(&[name, value])).collect();
            let durability = read(&rows);
            assert_eq!(durability.exclusive, exclusive, "{settings:?}");
            assert_eq!(durability.reasons.len(), reasons, "{settings:?}");
            assert_eq!(durability.failover == FailoverBehavior::Blocks, exclusive, "{settings:?}");
        }
    }
}
