//! A request: how it is sent, and what precedes it. Most requests first read the server's clock,
//! and some remove dead sessions before they query.

use super::{
    listening,
    literal::{bytes, text},
    looks::Look,
    turns::Rank,
};
use crate::backend::sql::{
    clock_readings::is_over,
    outcome::{Outcome, Row},
    server_clock::ClockTrust,
    step::Step,
};

/// The number of sessions that one request removes.
const SWEPT: u32 = 100;

/// The number of entries that one request removes, at once or in the background.
pub(super) const REMOVED: u32 = 5_000;
const REMOVED_AT_EASE: u32 = 1_000;

/// The statements of one transaction.
#[derive(Clone, Debug)]
pub(super) struct Message {
    form: Form,
    /// Expired sessions are removed before.
    pub(super) sweeps: bool,
    /// The first outcome contains the time that some sessions have left.
    pub(super) tells_expiries: bool,
    /// From this request on the server notifies the session of its watches.
    pub(super) listens: bool,
    /// The queues that the request joins together.
    pub(super) joins: Vec<String>,
    /// The request never waits for the user's pool.
    own: bool,
    renews: bool,
    /// The rows of the last outcome return whether there is more to tidy.
    pub(super) tidies: bool,
}

#[derive(Clone, Debug)]
enum Form {
    /// Statements that are planned each time.
    Statements(String),
    /// A call of a function of `leave.sql`, whose plans the server keeps, and the number of parts
    /// in its reply after that of the clock.
    Call(String, usize),
    /// Statements that most connections have prepared: see `alone.rs` and `looks.rs`.
    Step(Step),
    Look(Look),
}

/// What a request may conclude about sessions.
#[derive(Debug)]
pub(super) struct Evidence {
    pub(super) clock_trust: ClockTrust,
    /// An SQL condition for dead sessions: see `observed.rs`.
    pub(super) dead: String,
}

/// Returns the function call for a step on a connection without prepared statements.
fn call(step: &Step, session: i64) -> String {
    let number = |number: &Option<i64>| number.map_or("NULL".to_owned(), |n| n.to_string());
    match step {
        Step::Join { dir, ticket, label, value, if_free } => format!(
            "SELECT * FROM distlock.enqueue({session}, {}, '{ticket}', {}, {}, {if_free})",
            text(dir),
            text(label),
            bytes(value)
        ),
        Step::Leave { dir, ticket, label, number: own, successor } => format!(
            "SELECT * FROM distlock.leave({session}, {}, '{ticket}', {}, {}, {})",
            text(dir),
            text(label),
            number(own),
            number(successor)
        ),
    }
}

/// Returns how many parts the step's reply has after that of the clock.
fn parts_of(step: &Step) -> usize {
    match step {
        Step::Join { if_free, .. } => 1 + usize::from(*if_free),
        Step::Leave { .. } => 2,
    }
}

impl From<String> for Message {
    fn from(sql: String) -> Self {
        Self::new(Form::Statements(sql))
    }
}

impl From<Step> for Message {
    fn from(step: Step) -> Self {
        Self::new(Form::Step(step))
    }
}

impl From<Look> for Message {
    fn from(look: Look) -> Self {
        Self::new(Form::Look(look))
    }
}

impl Message {
    fn new(form: Form) -> Self {
        Self {
            form,
            sweeps: false,
            tells_expiries: false,
            listens: false,
            joins: Vec::new(),
            own: false,
            renews: false,
            tidies: false,
        }
    }

    pub(super) fn sweeping(sql: String) -> Self {
        Self { sweeps: true, ..sql.into() }
    }

    /// Creates a call of a function with its arguments.
    pub(super) fn call(call: &str, parts: usize) -> Self {
        Self::new(Form::Call(format!("SELECT * FROM distlock.{call}"), parts))
    }

    pub(super) fn with_expiries(self) -> Self {
        Self { tells_expiries: true, ..self }
    }

    pub(super) fn listening(self) -> Self {
        Self { listens: true, ..self }
    }

    pub(super) fn joining(self, queues: Vec<String>) -> Self {
        Self { joins: queues, ..self }
    }

    /// Makes the request always use the session's own connection.
    pub(super) fn by_own_connection(self) -> Self {
        Self { own: true, ..self }
    }

    pub(super) fn renewing(self) -> Self {
        Self { renews: true, ..self }
    }

    pub(super) fn tidying(self) -> Self {
        Self { tidies: true, sweeps: true, ..self }
    }

    pub(super) fn rank(&self) -> Rank {
        match self {
            Self { renews: true, .. } => Rank::Renewal,
            Self { tidies: true, .. } => Rank::Background,
            _ => Rank::Call,
        }
    }

    /// Returns `true` if the request uses the user's pool where there is one. A watch does not,
    /// because the notified connection has to begin it.
    pub(super) fn goes_by_pool(&self) -> bool {
        !self.own && !self.listens
    }

    pub(super) fn step(&self) -> Option<&Step> {
        match &self.form {
            Form::Step(step) => Some(step),
            _ => None,
        }
    }

    pub(super) fn look(&self) -> Option<&Look> {
        match &self.form {
            Form::Look(look) => Some(look),
            _ => None,
        }
    }

    /// Returns the ticket of the entry that is to leave.
    pub(super) fn leaves_with(&self) -> Option<&str> {
        match &self.form {
            Form::Step(Step::Leave { ticket, .. }) => Some(ticket),
            _ => None,
        }
    }

    /// Returns the text to send, and the number of outcomes before the message's own. The first of
    /// these is the result of [`CLOCK`]. A request that sweeps uses this evidence. `listen`: the
    /// connection does not listen yet.
    pub(super) fn text(
        &self,
        session: i64,
        evidence: Option<&Evidence>,
        listen: bool,
    ) -> (String, usize) {
        let listen = if listen { listening::begin(session) } else { String::new() };
        let sql = match &self.form {
            Form::Statements(sql) => sql,
            // The rows of a function contain the numbers of their parts.
            Form::Call(call, _) => return (listen + call, 1),
            Form::Step(step) => return (call(step, session), 1),
            Form::Look(look) => return (listen + &look.call(session), 1),
        };
        let (mut text, mut count) = (format!("{CLOCK};\n"), 1);
        if let Some(evidence) = evidence {
            if evidence.clock_trust.clips {
                text += CLIP;
                count += 1;
            }
            if !self.tidies {
                text += &sweep(session, evidence);
                count += 1;
            }
        }
        count += usize::from(!listen.is_empty());
        text += &listen;
        text += sql;
        if let Some(evidence) = evidence.filter(|_| self.tidies) {
            text += " UNION ALL SELECT ";
            text += &tidy(session, evidence);
        }
        (text, count)
    }

    /// Returns the outcome of each statement, or of each part of a function's rows.
    pub(super) fn outcomes(&self, outcomes: Vec<Outcome>) -> Vec<Outcome> {
        let count = match &self.form {
            Form::Statements(_) => return outcomes,
            Form::Call(_, count) => *count,
            Form::Step(step) => parts_of(step),
            Form::Look(look) => look.parts(),
        };
        parts(outcomes.iter().flat_map(Outcome::rows), count)
    }
}

/// Groups the rows of a function by the number of the part that each one begins with: the clock's
/// part, and `others` more.
pub(super) fn parts<'a>(rows: impl IntoIterator<Item = &'a Row>, others: usize) -> Vec<Outcome> {
    let mut parts: Vec<Vec<Row>> = vec![Vec::new(); others + 1];
    for row in rows {
        let (part, rest) = row.split_first();
        let part = part.and_then(|part| part.parse().ok());
        if let Some(rows) = part.and_then(|part: usize| parts.get_mut(part)) {
            rows.push(rest);
        }
    }
    let count = |rows: &Vec<Row>| u64::try_from(rows.len()).unwrap_or(u64::MAX);
    parts
        .into_iter()
        .map(|rows| (count(&rows), rows))
        .map(|(n, rows)| Outcome::new(rows, n))
        .collect()
}

/// Reads the server's clock in microseconds, the beat, and the connection's name. The beat is the
/// end of the log on the disk, which no crash undoes. The name shows whether a pooler has lent the
/// server's connection to other clients in between.
pub(super) const CLOCK: &str = "SELECT (extract(epoch FROM now()) * 1000000)::bigint, \
                                (pg_current_wal_flush_lsn() - '0/0')::bigint, \
                                current_setting('distlock.connection', true)";

/// The column with the position up to which the log is on the disk.
pub(super) const FLUSHED: usize = 1;

/// The column with the connection's name.
pub(super) const CONNECTION: usize = 2;

/// The beat of a renewal now: the position where the log continues. It never decreases.
pub(super) const BEAT: &str = "(pg_current_wal_insert_lsn() - '0/0')::bigint";

/// Shortens sessions that expire later than one TTL from now, which means that the clock was set
/// back. It reads the clock again, because a session may have been renewed since this transaction
/// began.
const CLIP: &str = "UPDATE distlock.sessions SET expires = clock_timestamp() + ttl \
                    WHERE id = ANY (ARRAY(SELECT id FROM distlock.sessions \
                    WHERE expires > clock_timestamp() + ttl \
                    ORDER BY id FOR UPDATE SKIP LOCKED));\n";

/// Removes expired sessions and their entries.
fn sweep(session: i64, evidence: &Evidence) -> String {
    format!("SELECT distlock.sweep({}, {REMOVED});\n", over(session, evidence))
}

/// Removes expired sessions in the background, at most once in 15 s, together with the rows of
/// unused queues. In between it removes the rest of ended sessions. Returns whether there is more.
fn tidy(session: i64, evidence: &Evidence) -> String {
    format!(
        "distlock.sweep(CASE WHEN EXISTS (SELECT FROM distlock.schema \
         WHERE tidied_at NOT BETWEEN now() - interval '15 seconds' AND now()) THEN {} \
         ELSE ARRAY(SELECT id FROM distlock.sessions WHERE ended AND id <> {session} \
         ORDER BY id LIMIT {SWEPT} FOR UPDATE SKIP LOCKED) END, {REMOVED_AT_EASE})",
        over(session, evidence)
    )
}

/// Returns the expired sessions, which it locks. A session that another request has locked is left
/// to the next sweep.
///
/// A holder gives up 0.9 TTL after it has sent a keepalive. Its session expires 1.1 TTL after the
/// server has counted the keepalive, by a clock that was not set since then, or for as long. The
/// difference of 0.2 TTL covers 0.15 TTL for this request's way and 0.02 TTL for two clocks that
/// differ. The row must also not have been written while the clock was wrong. Alternatively, other
/// processes of this host have seen for as long that the session was not renewed.
fn over(session: i64, Evidence { clock_trust, dead }: &Evidence) -> String {
    let at = |micros| format!("timestamptz 'epoch' + {micros} * interval '1 microsecond'");
    format!(
        "ARRAY(SELECT id FROM distlock.sessions \
         WHERE id <> {session} \
         AND (ended OR expires < now() AND expires < now() - 0.1 * ttl \
         AND now() - ({shows}) < 0.15 * ttl \
         AND (now() - ({since}) > 1.1 * ttl AND {over} OR {dead})) \
         ORDER BY id LIMIT {SWEPT} FOR UPDATE SKIP LOCKED)",
        since = at(clock_trust.since),
        shows = at(clock_trust.shows),
        // On a server that logs nothing else, a renewal right after a mark has its beat.
        over = is_over(&clock_trust.marks, BEAT, "expires - 0.95 * ttl", "<", at, |micros| {
            format!("{micros} * interval '1 microsecond'")
        })
    )
}

/// The milliseconds until a session `s` may be removed if it is not renewed. If it seems expired
/// but is still present, this is how long to wait, because the clock has been trusted for too short
/// a time.
pub(super) const LEFT: &str = "CASE WHEN s.ended THEN 0 ELSE (extract(epoch FROM greatest(\
                    least(s.expires - now(), s.ttl) + 0.1 * s.ttl, 0.02 * s.ttl)) * 1000)::bigint \
                    END";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_that_was_just_renewed_is_not_shortened() {
        let clock_trust = ClockTrust { since: 0, shows: 0, clips: true, marks: Vec::new() };
        let evidence = Evidence { clock_trust, dead: "FALSE".to_owned() };
        let (text, _) = Message::sweeping("SELECT 1".to_owned()).text(7, Some(&evidence), false);
        let clip = text.lines().find(|line| line.starts_with("UPDATE")).unwrap();
        assert!(clip.contains("expires > clock_timestamp() + ttl"), "{clip}");
        assert!(!clip.contains("now()"), "{clip}");
    }
}
