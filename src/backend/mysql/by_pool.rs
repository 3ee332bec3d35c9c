//! The statements before and after a request on a connection of the user's pool.
//!
//! The request is one transaction with the settings of a session's own connection (`opening.rs`).
//! On MySQL a setting stays on its connection, so the former values are kept in variables and
//! restored. `SET TRANSACTION` applies only to the next transaction, and **fails in an open
//! transaction**. A connection with one therefore stays unchanged. `START TRANSACTION READ WRITE`
//! fails on a read-only server.

use std::time::Duration;

use super::{
    ending::is_there,
    literal::text,
    message::{CONNECTION, EPOCH, Message},
    time::{BEAT, NOW},
};

/// The settings that requests rely on, and that another program may have changed; `opening.rs`
/// gives the reasons for most. Text is compared and stored as ASCII, whatever the pool uses.
const SETTINGS: [(&str, &str); 7] = [
    ("sql_mode", "'STRICT_ALL_TABLES'"),
    ("collation_connection", "'utf8mb4_bin'"),
    ("sql_select_limit", "18446744073709551615"),
    ("sql_big_selects", "1"),
    ("foreign_key_checks", "1"),
    ("unique_checks", "1"),
    ("sql_safe_updates", "0"),
];

/// The number of statements before the first one in the transaction, which checks the connection's
/// destination.
pub(super) const CHECK: usize = 3;

/// The number of statements before the message's own, and after them.
pub(super) const BEFORE: usize = CHECK + 1;
pub(super) const AFTER: usize = 2;

/// The most by which a server's beats rise between two requests of a session, unless the server
/// restarts. A restart raises them by 2^24 for each second since the previous start.
const SAME_RUN: i64 = 2 << 24;

/// The server and database of a session's own connection, which its requests through the pool have
/// to reach.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Destination {
    /// The value of [`SERVER`] or [`CLUSTER`].
    pub(super) server: String,
    pub(super) database: String,
    /// The name of the server or cluster in the tables.
    pub(super) tables: String,
    /// The epoch of the tables.
    pub(super) epoch: i64,
    /// Any server of the cluster is accepted.
    pub(super) clustered: bool,
}

const SERVER: &str = "CONCAT(@@hostname, ':', @@port, ':', @@server_id \
                      /*!80000 , ':', @@server_uuid */)";
const CLUSTER: &str = "@@wsrep_cluster_name";

/// Reads the destination of the own connection.
pub(super) fn read(clustered: bool) -> Message {
    let server = if clustered { CLUSTER } else { SERVER };
    Message::plain(vec![format!("SELECT {server}, DATABASE(), {EPOCH}")])
}

/// The context of one request.
pub(super) struct Bracket<'a> {
    pub(super) destination: &'a Destination,
    /// The unique name of the request.
    pub(super) name: i64,
    pub(super) session: i64,
    /// The lowest beat that the server may have.
    pub(super) beat: i64,
    pub(super) patience: Duration,
}

impl Bracket<'_> {
    /// Returns the whole text of a request.
    pub(super) fn around(&self, message: &Message) -> String {
        let (keep, set, restore) = self.settings();
        let is_there = match message.looks_for_session {
            true => is_there(self.session),
            false => "TRUE".to_owned(),
        };
        let mut all = vec![
            "SET TRANSACTION ISOLATION LEVEL READ COMMITTED".to_owned(),
            format!(
                "SET {CONNECTION} = {}, {EPOCH} = {}, {keep}, {set}",
                self.name, self.destination.epoch
            ),
            "START TRANSACTION READ WRITE".to_owned(),
            // A subquery that returns two rows is an error.
            format!(
                "SELECT {NOW}, {BEAT}, {CONNECTION}, {is_there}, \
                 IF({}, TRUE, (SELECT 1 UNION ALL SELECT 2))",
                self.is_destination()
            ),
        ];
        all.extend_from_slice(message.statements());
        all.push("COMMIT AND NO CHAIN NO RELEASE".to_owned());
        all.push(restore);
        all.join(";\n")
    }

    /// Returns the statements that undo a request which the server has refused after its settings
    /// were made.
    pub(super) fn undo(&self) -> String {
        let (_, _, restore) = self.settings();
        format!("ROLLBACK AND NO CHAIN NO RELEASE;\n{restore}")
    }

    fn is_destination(&self) -> String {
        let Destination { server, database, tables, clustered, .. } = self.destination;
        let (server, database, tables) = (text(server), text(database), text(tables));
        let (is_run, expression) = match clustered {
            true => (String::new(), CLUSTER),
            false => {
                let beat = self.beat;
                (format!("AND {BEAT} BETWEEN {beat} AND {beat} + {SAME_RUN} "), SERVER)
            }
        };
        format!(
            "{expression} = {server} AND DATABASE() = {database} {is_run}\
             AND (SELECT server FROM distlock_schema WHERE id = 1) = {tables}"
        )
    }

    /// Returns the statements that keep the settings, make those of a request, and restore them.
    fn settings(&self) -> (String, String, String) {
        let seconds = self.patience.as_secs().max(1).div_ceil(2).to_string();
        let milliseconds = self.patience.as_millis().clamp(1, 1 << 30);
        let limit = format!("{:.3}", (0.9 * self.patience.as_secs_f64()).max(0.001));
        let mut settings: Vec<_> =
            SETTINGS.iter().map(|(name, value)| ("", *name, *value)).collect();
        settings.push(("", "innodb_lock_wait_timeout", &seconds));
        settings.push(("", "lock_wait_timeout", &seconds));
        if self.destination.clustered {
            settings.push(("", "wsrep_sync_wait", "1"));
        }
        let milliseconds = milliseconds.to_string();
        settings.push(("M!100101", "max_statement_time", &limit));
        settings.push(("M!110602", "innodb_snapshot_isolation", "0"));
        settings.push(("!80000", "max_execution_time", &milliseconds));
        let each = |write: &dyn Fn(&str, &str) -> String| {
            let mut text = String::new();
            for (only, name, value) in &settings {
                let comma = if text.is_empty() { "" } else { ", " };
                let one = format!("{comma}{}", write(name, value));
                text += &if only.is_empty() { one } else { format!(" /*{only} {one} */") };
            }
            text
        };
        let keep = each(&|name, _| format!("@distlock_{name} = @@SESSION.{name}"));
        let set = each(&|name, value| format!("SESSION {name} = {value}"));
        let restore = each(&|name, _| format!("SESSION {name} = @distlock_{name}"));
        (keep, set, format!("SET {restore}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bracket(destination: &Destination) -> Bracket<'_> {
        let patience = Duration::from_secs(2);
        Bracket { destination, name: 7, session: 9, beat: 5, patience }
    }

    #[test]
    fn request_is_one_transaction_between_its_settings() {
        let destination =
            Destination { server: "h:1:2".into(), epoch: 4, ..Destination::default() };
        let bracket = bracket(&destination);
        let text = bracket.around(&Message::plain(vec!["SELECT 1".to_owned()]));
        let all: Vec<_> = text.split(";\n").collect();
        assert_eq!(all.len(), BEFORE + 1 + AFTER);
        assert!(all[1].starts_with("SET @distlock_connection = 7, @distlock_epoch = 4, "));
        assert!(all[CHECK].contains("= 'h:1:2' AND DATABASE() = ''"), "{}", all[CHECK]);
        assert!(all[CHECK].contains("BETWEEN 5 AND 5 + 33554432"), "{}", all[CHECK]);
        assert_eq!(all[BEFORE], "SELECT 1");
    }

    #[test]
    fn session_settings_are_saved_and_restored() {
        for clustered in [false, true] {
            let destination = Destination { clustered, ..Destination::default() };
            let (keep, set, restore) = bracket(&destination).settings();
            let names = |text: &str, before: &str, after: &str| -> Vec<String> {
                let parts = text.split(before).skip(1);
                parts.map(|part| part.split(after).next().unwrap().to_owned()).collect()
            };
            let kept = names(&keep, "@@SESSION.", "&");
            let kept: Vec<_> =
                kept.iter().map(|name| name.split([',', ' ']).next().unwrap()).collect();
            assert_eq!(kept, names(&set, "SESSION ", " ="));
            assert_eq!(kept, names(&restore, "SESSION ", " ="));
            assert_eq!(kept.contains(&"wsrep_sync_wait"), clustered);
            assert_eq!(set.matches(" /*").count(), 3, "{set}");
        }
    }
}
