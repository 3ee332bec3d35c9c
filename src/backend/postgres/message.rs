//! One request: how it is sent, and what goes before it. With most of them the server's clock is
//! read first; some remove dead sessions before they look.

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

/// How many sessions one request removes.
const SWEPT: u32 = 100;

/// How many entries one request removes, and how many in the background.
pub(super) const REMOVED: u32 = 5_000;
const REMOVED_AT_EASE: u32 = 1_000;

/// What is asked of the server in one transaction.
#[derive(Clone, Debug)]
pub(super) struct Message {
    form: Form,
    /// Sessions that are over are removed before.
    pub(super) sweeps: bool,
    /// Its first outcome tells how long some sessions will live.
    pub(super) tells_expiries: bool,
    /// From then on the server is to notify the session of what it watches.
    pub(super) listens: bool,
    /// The queues that it joins together.
    pub(super) joins: Vec<String>,
    /// It never waits for the user's pool.
    own: bool,
    renews: bool,
    /// The rows of its last outcome tell whether to ask again.
    pub(super) tidies: bool,
}

#[derive(Clone, Debug)]
enum Form {
    /// Statements that are planned each time.
    Statements(String),
    /// A call of one of the functions of `queue.sql`, whose plans the server keeps; and how many
    /// parts its reply has after that of the clock.
    Call(String, usize),
    /// Statements that each connection has prepared: see `alone.rs` and `looks.rs`.
    Step(Step),
    Look(Look),
}

/// What a request may conclude of sessions.
#[derive(Debug)]
pub(super) struct Evidence {
    pub(super) clock_trust: ClockTrust,
    /// A condition: see `observed.rs`.
    pub(super) dead: String,
}

/// A step as a call of a function, where nothing is prepared.
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

/// How many parts its reply has after that of the clock.
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

    /// `call` is that of a function with its arguments.
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

    /// It goes by the session's own connection in any case.
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

    /// Whether it goes by the user's pool if there is one. A watch does not: the connection that is
    /// notified has to make it.
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

    /// The ticket of the entry that is to leave.
    pub(super) fn leaves_with(&self) -> Option<&str> {
        match &self.form {
            Form::Step(Step::Leave { ticket, .. }) => Some(ticket),
            _ => None,
        }
    }

    /// The text to send; a session that is to sweep has this evidence. The first of its outcomes
    /// is what [`CLOCK`] tells. So many come before the message's own. `listen`: the connection
    /// does not listen yet.
    pub(super) fn text(
        &self,
        session: i64,
        evidence: Option<&Evidence>,
        listen: bool,
    ) -> (String, usize) {
        let listen = if listen { listening::begin(session) } else { String::new() };
        let sql = match &self.form {
            Form::Statements(sql) => sql,
            // Its rows tell by themselves what they are.
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

    /// What each statement came to, or each part of a function's rows.
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

/// The rows of a function, by the number of the part that each one begins with: of the clock's part
/// and so many others.
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

/// What the server's clock shows, in microseconds; how far the beats are: where the log that is on
/// the disk ends, so that no crash takes it back; and what the connection is called: a pooler may
/// give the server's connection to others in between.
pub(super) const CLOCK: &str = "SELECT (extract(epoch FROM now()) * 1000000)::bigint, \
                                (pg_current_wal_flush_lsn() - '0/0')::bigint, \
                                current_setting('distlock.connection', true)";

/// The column of its reply with the position up to which the log is on the disk.
pub(super) const FLUSHED: usize = 1;

/// The column of its reply with the connection's name.
pub(super) const CONNECTION: usize = 2;

/// The beat of what is renewed now: where the log will go on. It never goes back.
pub(super) const BEAT: &str = "(pg_current_wal_insert_lsn() - '0/0')::bigint";

/// Nobody lives for longer than that. The clock has been set back, otherwise.
const CLIP: &str = "UPDATE distlock.sessions SET expires = now() + ttl WHERE id = ANY (\
                    ARRAY(SELECT id FROM distlock.sessions WHERE expires > now() + ttl \
                    ORDER BY id FOR UPDATE SKIP LOCKED));\n";

/// Removes the sessions that are over, and their entries with them.
fn sweep(session: i64, evidence: &Evidence) -> String {
    format!("SELECT distlock.remove({}, {REMOVED});\n", over(session, evidence))
}

/// The same in the background, once in each of the times after which queues are looked for that are
/// not used. In between what is left of ended sessions is removed. Whether there is more.
fn tidy(session: i64, evidence: &Evidence) -> String {
    format!(
        "distlock.remove(CASE WHEN EXISTS (SELECT FROM distlock.schema \
         WHERE tidied_at NOT BETWEEN now() - interval '15 seconds' AND now()) THEN {} \
         ELSE ARRAY(SELECT id FROM distlock.sessions WHERE ended AND id <> {session} \
         ORDER BY id LIMIT {SWEPT} FOR UPDATE SKIP LOCKED) END, {REMOVED_AT_EASE})",
        over(session, evidence)
    )
}

/// The sessions that are over, which are locked. A session that another request has locked is
/// skipped, and left to the next sweep.
///
/// A holder gives up 0.9 TTL after it has sent a keepalive. It is over 1.1 TTL after the server has
/// counted that one, by a clock that has not been set since then, or for as long: all but what this
/// request may take on its way, which is 0.15 TTL, and 0.02 TTL by which two clocks differ. And its
/// row was not written while the clock was wrong. Or other processes of this host have seen for as
/// long that it was not renewed.
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
        // What is renewed right after a mark, on a server that logs nothing else, has its beat.
        over = is_over(&clock_trust.marks, BEAT, "expires - 0.95 * ttl", "<", at, |micros| {
            format!("{micros} * interval '1 microsecond'")
        })
    )
}

/// How many milliseconds it takes, at least, until a session `s` is removed that is not renewed.
/// Or how long to wait if it is not yet, because what is believed of the clock is too young.
pub(super) const LEFT: &str = "CASE WHEN s.ended THEN 0 ELSE (extract(epoch FROM greatest(\
                    least(s.expires - now(), s.ttl) + 0.1 * s.ttl, 0.02 * s.ttl)) * 1000)::bigint \
                    END";
