//! Reads what a server's settings and standbys guarantee.

use crate::backend::{Durability, FailoverBehavior, sql::outcome::Row};

/// Reads the settings and the number of standbys. Other receivers of the log cannot be promoted and
/// do not count: logical subscribers, backups in progress, and `pg_receivewal`, which only stores
/// the log and reports no replay position. Without the right to read all of `pg_stat_replication`,
/// backups and `pg_receivewal` count too.
pub(super) const SQL: &str = "SELECT current_setting('fsync') = 'on', \
     current_setting('full_page_writes') = 'on', current_setting('synchronous_commit'), \
     current_setting('synchronous_standby_names') <> '', \
     (SELECT count(*) FROM pg_stat_replication AS r WHERE NOT EXISTS (\
     SELECT FROM pg_replication_slots WHERE active_pid = r.pid AND slot_type = 'logical') \
     AND (state = 'backup' OR state = 'streaming' AND replay_lsn IS NULL) IS NOT TRUE)";

/// Reads the row of [`SQL`].
pub(super) fn read(row: &Row) -> Durability {
    let (fsync, pages) = (row.flag(0), row.flag(1));
    let commit = row.text(2).unwrap_or_default();
    let (named, commits_wait) = (row.flag(3), matches!(commit, "on" | "remote_apply"));
    let waits = named && commits_wait;
    let standbys = row.number(4).unwrap_or(0);
    let mut reasons = Vec::new();
    if !fsync {
        reasons.push(
            "fsync is off: a crash of the machine may undo confirmed commits. Turn it on"
                .to_owned(),
        );
    }
    if !pages {
        reasons
            .push("full_page_writes is off: a crash may corrupt the tables. Turn it on".to_owned());
    }
    if standbys > 0 && !waits {
        let commit = format!("synchronous_commit, which is {commit}, to on or remote_apply");
        let fix = match (named, commits_wait) {
            (true, _) => commit,
            (false, true) => "synchronous_standby_names".to_owned(),
            (false, false) => format!("synchronous_standby_names, and set {commit}"),
        };
        reasons.push(format!(
            "commits are confirmed before all standbys have them on disk ({standbys} connected), \
             so a promoted standby may lack held locks. Set {fix}"
        ));
    }
    let exclusive = reasons.is_empty();
    let failover = match (exclusive, waits && standbys > 0) {
        (false, _) => FailoverBehavior::MayLoseGrants,
        (true, true) => {
            reasons.push(
                "promote only a synchronous standby, and never while the old primary is still \
                 running"
                    .to_owned(),
            );
            FailoverBehavior::Continues
        }
        (true, false) => FailoverBehavior::Blocks,
    };
    Durability { exclusive, failover, reasons }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::sql::outcome::Outcome;

    #[test]
    fn settings_and_standbys_decide() {
        for (row, exclusive, failover, reasons) in [
            (["t", "t", "on", "f", "0"], true, FailoverBehavior::Blocks, 0),
            // No standby is connected, so the server confirms nothing.
            (["t", "t", "on", "t", "0"], true, FailoverBehavior::Blocks, 0),
            (["t", "t", "on", "t", "1"], true, FailoverBehavior::Continues, 1),
            (["t", "t", "remote_apply", "t", "2"], true, FailoverBehavior::Continues, 1),
            (["t", "t", "on", "f", "1"], false, FailoverBehavior::MayLoseGrants, 1),
            (["t", "t", "local", "t", "1"], false, FailoverBehavior::MayLoseGrants, 1),
            (["t", "t", "remote_write", "t", "1"], false, FailoverBehavior::MayLoseGrants, 1),
            (["f", "t", "on", "f", "0"], false, FailoverBehavior::MayLoseGrants, 1),
            (["t", "f", "on", "f", "0"], false, FailoverBehavior::MayLoseGrants, 1),
            (["f", "f", "on", "f", "3"], false, FailoverBehavior::MayLoseGrants, 3),
        ] {
            let durability = read(Outcome::of_one(&row).first().unwrap());
            assert_eq!(
                (durability.exclusive, durability.failover),
                (exclusive, failover),
                "{row:?}"
            );
            assert_eq!(durability.reasons.len(), reasons, "{row:?}");
        }
    }
}
