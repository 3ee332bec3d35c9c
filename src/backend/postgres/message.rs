//! One request, and what goes before it: the server's clock is read, and dead sessions are put
//! away.

use crate::backend::sql::{beats::is_over, server_clock::Belief};

/// How many sessions one request puts away.
const SWEPT: u32 = 100;

/// What is asked of the server in one transaction.
#[derive(Clone, Debug)]
pub(super) struct Message {
    sql: String,
    /// Sessions that are over are put away before.
    pub(super) sweeps: bool,
    /// Its first outcome tells how long some sessions will live.
    pub(super) tells_expiries: bool,
}

impl From<String> for Message {
    fn from(sql: String) -> Self {
        Self { sql, sweeps: false, tells_expiries: false }
    }
}

impl Message {
    pub(super) fn sweeping(sql: String) -> Self {
        Self { sql, sweeps: true, tells_expiries: false }
    }

    pub(super) fn telling_expiries(self) -> Self {
        Self { tells_expiries: true, ..self }
    }

    /// The text to send; a session that is to sweep has this to go by. The first of its outcomes
    /// is what [`CLOCK`] tells. So many come before the message's own.
    pub(super) fn text(&self, session: i64, belief: Option<&Belief>) -> (String, usize) {
        let (mut text, mut count) = (format!("{CLOCK};\n"), 1);
        if let Some(belief) = belief {
            if belief.clips {
                text += CLIP;
                count += 1;
            }
            text += &sweep(session, belief);
            count += 1;
        }
        text += &self.sql;
        (text, count)
    }
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

/// Puts away the sessions that are over, and their entries by that. It waits for nobody: a session
/// that a request is under way for is left to the next one.
///
/// A holder gives up 0.9 TTL after it has sent a keepalive. It is put away 1.1 TTL after the server
/// has counted that one, by a clock that has not been set since then, or for as long: all but what
/// this request may take on its way, which is 0.15 TTL, and 0.02 TTL by which two clocks differ.
/// And its row was not written while the clock was wrong.
fn sweep(session: i64, belief: &Belief) -> String {
    let at = |micros| format!("timestamptz 'epoch' + {micros} * interval '1 microsecond'");
    format!(
        "DELETE FROM distlock.sessions WHERE id = ANY (ARRAY(SELECT id FROM distlock.sessions \
         WHERE expires < now() AND expires < now() - 0.1 * ttl AND id <> {session} \
         AND now() - ({since}) > 1.1 * ttl AND now() - ({shows}) < 0.15 * ttl \
         AND {over} ORDER BY id LIMIT {SWEPT} FOR UPDATE SKIP LOCKED));\n",
        since = at(belief.since),
        shows = at(belief.shows),
        // What is renewed right after a mark, on a server that logs nothing else, has its beat.
        over = is_over(&belief.marks, BEAT, "expires - 0.95 * ttl", "<", at, |micros| {
            format!("{micros} * interval '1 microsecond'")
        })
    )
}

/// How many milliseconds it takes, at least, until a session `s` is put away that is not renewed.
/// Or how long to wait if it is not yet, because what is believed of the clock is too young.
pub(super) const LEFT: &str = "(extract(epoch FROM greatest(\
                    least(s.expires - now(), s.ttl) + 0.1 * s.ttl, 0.02 * s.ttl)) * 1000)::bigint";
