//! Joining queues, whether or not they have other entries.

use super::{
    ending::{ENDED, QUARANTINE, is_there, quarantined},
    literal::{bytes, text},
    message::Message,
    opening::QUARANTINED,
    places::{NAME, ahead, lowest, next, next_of_entries, row_of},
    time::NOW,
};
use crate::{
    backend::{name::NOBODY, sql::step::Step},
    runtime::random,
};

/// A session that joins these queues, all of them or none.
pub(super) struct Joining<'a> {
    session: i64,
    /// A random number, which marks the rows that this request has locked.
    turn: i64,
    steps: &'a [Step],
    /// Join only if all of the queues are empty.
    if_free: bool,
    /// The queues as an SQL list.
    names: String,
    /// The table `a` of queues and tickets, with the columns `name` and `ticket`.
    places: String,
    /// The same table with the columns `label` and `value`.
    entries: String,
}

impl<'a> Joining<'a> {
    /// No two steps may use the same queue.
    pub(super) fn new(session: i64, turn: i64, steps: &'a [Step], if_free: bool) -> Self {
        let [mut names, mut places, mut entries] = [const { Vec::new() }; 3];
        for step in steps {
            let (name, ticket) = (text(step.dir()), text(step.ticket()));
            let place = format!("SELECT {name} AS name, {ticket} AS ticket");
            let (label, value) = (text(step.label()), bytes(step.value()));
            entries.push(format!("{place}, {label} AS label, {value} AS value"));
            names.push(name);
            places.push(place);
        }
        // Two requests for the same queues would otherwise deadlock.
        places.sort_unstable();
        let table = |rows: Vec<String>| format!("({}) AS a", rows.join(" UNION ALL "));
        Self {
            session,
            turn,
            steps,
            if_free,
            names: names.join(", "),
            places: table(places),
            entries: table(entries),
        }
    }

    pub(super) fn of_one(session: i64, step: &'a Step) -> Self {
        let if_free = matches!(step, Step::Join { if_free: true, .. });
        Self::new(session, random::id(), std::slice::from_ref(step), if_free)
    }

    /// Puts an entry into `distlock_alone` if its queue is empty and has no notes, and the row is
    /// then open. Otherwise it closes the row, and puts the entry into `distlock_entries`.
    ///
    /// If another transaction has locked a row, the request changes nothing, because that may be a
    /// user's transaction that has checked the lock. The statement that locks the rows also reads
    /// them, so a row that was just taken counts as taken. Because the queues are locked, other
    /// entries can only leave in the meantime.
    ///
    /// `crowded`: the queue had other entries recently, and the row is closed in any case, which
    /// saves a statement.
    pub(super) fn message(&self, crowded: bool) -> Message {
        let names = &self.names;
        // While the queue is locked, a closed row changes only when its holder leaves.
        let changes = format!("queue IN ({names}) AND (epoch <> 0 OR session IS NULL)");
        let mut statements = vec![
            self.lock(),
            format!(
                "SELECT locked = there, held = 0 AND {}, \
                 NOT EXISTS (SELECT 1 FROM distlock_data WHERE dir IN ({names})), \
                 (SELECT MIN(number) FROM distlock_entries \
                 WHERE queue IN ({names}) AND number >= {}) \
                 INTO @distlock_ready, @distlock_free, @distlock_bare, @distlock_head \
                 FROM (SELECT COUNT(*) AS locked, COUNT(session) AS held FROM distlock_alone \
                 WHERE {changes} FOR UPDATE SKIP LOCKED) AS mine, \
                 (SELECT COUNT(*) AS there FROM distlock_alone WHERE {changes}) AS everyone",
                self.nobody("AND epoch = 0"),
                lowest(names)
            ),
        ];
        let can_open = "@distlock_free AND @distlock_bare";
        let can_open = if crowded { "FALSE" } else { can_open };
        if !crowded {
            statements.push(self.open(&format!("@distlock_ready AND {can_open}")));
        }
        let only_if = if self.if_free { "AND @distlock_free" } else { "" };
        let rows: Vec<_> = self.steps.iter().map(|step| row_of(step.dir())).collect();
        let only_if = format!("@distlock_ready AND NOT ({can_open}) {only_if}");
        statements.push(format!(
            "UPDATE distlock_alone SET epoch = 0 WHERE ({}) AND epoch <> 0 AND {only_if}",
            rows.join(" OR ")
        ));
        statements.extend(self.crowd(&only_if));
        self.finish(statements)
    }

    /// Puts the entries into `distlock_alone`.
    fn open(&self, only_if: &str) -> String {
        let Self { session, turn, entries, .. } = self;
        let own = "number, session, ticket, label, value, since, turn, epoch";
        let taken = own.split(", ").map(|column| format!("{column} = VALUES({column})"));
        format!(
            "INSERT INTO distlock_alone (queue, version, {own}) \
             SELECT q.queue, 1, {}, {session}, a.ticket, a.label, a.value, {NOW}, {turn}, s.epoch \
             FROM {entries} JOIN distlock_queues AS q ON q.queue = a.name AND q.turn = {turn} \
             JOIN distlock_schema AS s ON s.id = 1 \
             LEFT JOIN distlock_alone AS o ON o.queue = a.name WHERE {only_if} AND {} \
             ON DUPLICATE KEY UPDATE version = 1, {}",
            next("GREATEST(q.number, s.floor, COALESCE(o.number, 0))"),
            is_there(self.session),
            taken.collect::<Vec<_>>().join(", "),
        )
    }

    /// Joins the queues that are empty and have no row in `distlock_alone`, each by itself.
    pub(super) fn fresh(&self) -> [String; 2] {
        let Self { turn, places, .. } = self;
        let lock = format!(
            "INSERT INTO distlock_queues (queue, number, turn, used) \
             SELECT name, 0, {turn}, {NOW} FROM {places} \
             WHERE NOT EXISTS (SELECT 1 FROM distlock_alone WHERE queue = a.name) \
             ON DUPLICATE KEY UPDATE turn = {turn}, used = {NOW}"
        );
        let is_fresh = format!(
            "o.queue IS NULL AND NOT {} \
             AND NOT EXISTS (SELECT 1 FROM distlock_entries AS e WHERE e.queue = a.name) \
             AND NOT EXISTS (SELECT 1 FROM distlock_data WHERE dir = a.name)",
            quarantined()
        );
        [lock, self.open(&is_fresh)]
    }

    /// Returns the condition that all queues are empty and locks can be granted. `alone` selects
    /// rows of `distlock_alone`.
    fn nobody(&self, alone: &str) -> String {
        let names = &self.names;
        format!(
            "NOT EXISTS (SELECT 1 FROM distlock_entries WHERE queue IN ({names}) \
             AND number >= {}) \
             AND NOT EXISTS (SELECT 1 FROM distlock_alone WHERE queue IN ({names}) \
             AND session IS NOT NULL {alone}) AND NOT {}",
            lowest(names),
            quarantined()
        )
    }

    /// Locks the queues' rows, so that numbers are in the order of the commits. `AUTO_INCREMENT`
    /// does not ensure that.
    fn lock(&self) -> String {
        let Self { turn, places, .. } = self;
        let only_if = if self.if_free { &self.nobody("") } else { "TRUE" };
        format!(
            "INSERT INTO distlock_queues (queue, number, turn, used) \
             SELECT name, 0, {turn}, {NOW} FROM {places} WHERE {only_if} \
             ON DUPLICATE KEY UPDATE turn = {turn}, used = {NOW}"
        )
    }

    /// Draws the queues' next numbers and writes the entries. While nothing is granted,
    /// [`QUARANTINE`] joins just before each entry. A separate statement computes the number,
    /// because it has to read the floor while the row is locked: see `opening::tidy`. The row of
    /// [`QUARANTINE`] may remain for a while after its end. It then joins no queue, because no
    /// number is free for it.
    fn crowd(&self, only_if: &str) -> [String; 2] {
        let Self { session, turn, names, places, entries, .. } = self;
        let number = next_of_entries(
            "GREATEST(number, (SELECT floor FROM distlock_schema WHERE id = 1), \
             COALESCE((SELECT o.number FROM distlock_alone AS o WHERE o.queue = q.queue), 0))",
        );
        let from = |table| {
            format!(
                "FROM {table} JOIN distlock_queues AS q ON q.queue = a.name AND q.turn = {turn}"
            )
        };
        // The number of an entry that leaves is not reused.
        let lowest = match self.steps.len() {
            1 => "lowest = COALESCE(@distlock_head, number),",
            _ => "",
        };
        // A repeated request has joined already.
        let own = |table| {
            format!(
                "NOT EXISTS (SELECT 1 FROM {table} AS o WHERE o.queue = a.name \
                 AND o.session = {session} AND o.ticket = a.ticket)"
            )
        };
        let only_if_new = format!(
            "WHERE {} AND {} AND {} AND {only_if}",
            is_there(self.session),
            own("distlock_entries"),
            own("distlock_alone")
        );
        [
            format!(
                "UPDATE distlock_queues AS q SET {lowest} number = {number} + 2 * {} \
                 WHERE queue IN ({names}) AND turn = {turn} AND {only_if}",
                quarantined()
            ),
            format!(
                "INSERT INTO distlock_entries \
                 (queue, number, session, ticket, label, value, version, since) \
                 SELECT q.queue, q.number, {session}, a.ticket, a.label, a.value, 1, {NOW} \
                 {} {only_if_new} UNION ALL \
                 SELECT q.queue, q.number - 2, s.id, a.ticket, '{NOBODY}', {}, 1, {NOW} \
                 {} JOIN distlock_sessions AS s ON s.id = {QUARANTINE} AND NOT s.{ENDED} \
                 {only_if_new}",
                from(entries),
                bytes(QUARANTINED),
                from(places)
            ),
        ]
    }

    /// Adds one [`joined`] for each queue. With `if_free` a last statement has three columns. The
    /// first says that there are entries, all of sessions that have expired by the clock. The
    /// second says that nothing is granted at present, and no entry of a live session is known. The
    /// third says that there are entries, live or dead, or that nothing is granted.
    fn finish(&self, mut statements: Vec<String>) -> Message {
        let (session, names) = (self.session, &self.names);
        statements.extend(self.steps.iter().map(|step| joined(session, step)));
        if self.if_free {
            let in_them = |table| format!("SELECT session FROM {table} WHERE queue IN ({names})");
            let entries = in_them("distlock_entries");
            let entries = format!("{entries} AND number >= {}", lowest(names));
            let alone = in_them("distlock_alone");
            // The search ends at the first live session, because queues may be long.
            let lives = |of: &str| {
                format!(
                    "EXISTS (SELECT 1 FROM ({of}) AS e JOIN distlock_sessions AS s \
                     ON s.id = e.session WHERE s.id <> {QUARANTINE} AND s.expires >= {NOW})"
                )
            };
            let quarantined = quarantined();
            statements.push(format!(
                "SELECT there AND NOT alive, {quarantined} AND NOT alive, \
                 there OR {quarantined} FROM (SELECT EXISTS ({entries}) OR \
                 EXISTS ({alone} AND session IS NOT NULL) AS there, {} OR {} AS alive) AS seen",
                lives(&alone),
                lives(&entries)
            ));
        }
        let step = self.steps.first().filter(|_| self.steps.len() == 1);
        let queues = self.steps.iter().map(Step::dir);
        Message::transaction(statements).of_session().step(step.cloned()).about(queues)
    }
}

/// Returns the own entry and the two ahead of it, nearest first, with whether the queue may have
/// more. No rows: the entry is absent.
fn joined(session: i64, step: &Step) -> String {
    let (dir, ticket) = (text(step.dir()), text(step.ticket()));
    let own = format!("session = {session} AND ticket = {ticket}");
    let last = format!(
        "(SELECT own.number FROM distlock_entries AS own WHERE {own} AND own.queue = {dir})"
    );
    let alone = format!(
        "SELECT {NAME}, epoch = 0 FROM distlock_alone WHERE queue = {dir} \
         AND session IS NOT NULL AND ({own} OR EXISTS (\
         SELECT 1 FROM distlock_entries WHERE queue = {dir} AND {own}))"
    );
    ahead(&dir, &last, &format!("{NAME}, TRUE"), &alone)
}

/// Returns where [`joined`] is in the reply to a request to join one queue, counted from its end.
pub(super) fn joined_at(if_free: bool) -> usize {
    1 + usize::from(if_free)
}
