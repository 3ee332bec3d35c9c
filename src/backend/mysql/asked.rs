//! What joins queues: one statement for all of them that locks their rows, one that raises their
//! numbers, and one that writes the entries.

use super::{
    literal::{bytes, text},
    message::NOW,
    opening::{QUARANTINE, QUARANTINED, quarantined},
};
use crate::backend::{name::NOBODY, sql::step::Step};

/// Who asks to join which queues, or to leave them.
pub(super) struct Asked {
    /// The queues, as a list.
    pub(super) names: String,
    /// The tickets, as a list.
    pub(super) tickets: String,
    /// The table `a` of both, with the columns `name` and `ticket`.
    pub(super) places: String,
    /// The same with the columns `label` and `value`.
    entries: String,
}

impl Asked {
    /// No two are about the same queue.
    pub(super) fn of<'a>(steps: impl Iterator<Item = &'a Step>) -> Self {
        let [mut names, mut tickets, mut places, mut entries] = [const { Vec::new() }; 4];
        for step in steps {
            let (name, ticket) = (text(step.dir()), text(step.ticket()));
            let place = format!("SELECT {name} AS name, {ticket} AS ticket");
            if let Step::Join { label, value, .. } = step {
                let (label, value) = (text(label), bytes(value));
                entries.push(format!("{place}, {label} AS label, {value} AS value"));
            }
            names.push(name);
            tickets.push(ticket);
            places.push(place);
        }
        let table = |rows: Vec<String>| format!("({}) AS a", rows.join(" UNION ALL "));
        Self {
            names: names.join(", "),
            tickets: tickets.join(", "),
            places: table(places),
            entries: table(entries),
        }
    }

    /// Locks the queues' rows, and takes their next numbers: so numbers are in the order of the
    /// commits. (Those of `AUTO_INCREMENT` are not.) `turn`, a number that nobody else has drawn,
    /// shows that a row was locked by this request. What a number is is decided by a statement of
    /// its own, which reads the floor while the row is locked: see `opening::tidy`.
    pub(super) fn lock(&self, turn: i64, only_if: &str) -> Vec<String> {
        vec![
            format!(
                "INSERT INTO distlock_queues (queue, number, turn, used) \
                 SELECT name, 0, {turn}, {NOW} FROM {} WHERE {only_if} \
                 ON DUPLICATE KEY UPDATE turn = {turn}, used = {NOW}",
                self.places
            ),
            format!(
                "UPDATE distlock_queues SET number = 1 + {} + GREATEST(number, \
                 (SELECT floor FROM distlock_schema WHERE id = 1)) \
                 WHERE queue IN ({}) AND turn = {turn}",
                quarantined(),
                self.names
            ),
        ]
    }

    /// Writes the entries. While nothing is granted, [`QUARANTINE`] joins just before each.
    pub(super) fn insert(&self, session: i64, turn: i64, only_if: &str) -> String {
        let from = |table| {
            format!(
                "FROM {table} JOIN distlock_queues AS q ON q.queue = a.name AND q.turn = {turn}"
            )
        };
        let only_if = format!(
            "WHERE EXISTS (SELECT 1 FROM distlock_sessions WHERE id = {session}) AND {only_if}"
        );
        format!(
            "INSERT INTO distlock_entries \
             (queue, number, session, ticket, label, value, version, since) \
             SELECT q.queue, q.number, {session}, a.ticket, a.label, a.value, 1, {NOW} \
             {} {only_if} UNION ALL \
             SELECT q.queue, q.number - 1, s.id, a.ticket, '{NOBODY}', {}, 1, {NOW} \
             {} JOIN distlock_sessions AS s ON s.id = {QUARANTINE} {only_if}",
            from(&self.entries),
            bytes(QUARANTINED),
            from(&self.places)
        )
    }
}
