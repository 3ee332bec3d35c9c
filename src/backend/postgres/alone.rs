//! Joining and leaving, the two most frequent requests. A connection has prepared both, except
//! behind a pooler and with the user's pool.
//!
//! An entry that is alone in its queue is stored in the queue's own row (see `distlock.queues` in
//! `tables.sql`), and one `UPDATE` adds or removes it. If the `UPDATE` finds no row, the same
//! statement continues with a function that handles queues with other entries. The server prepares
//! for that function each time, which takes a tenth of its work. Where the queue was just empty,
//! the request therefore omits the function, and is repeated with it if the `UPDATE` has found no
//! row.

use std::{sync::Arc, time::Duration};

use futures_util::future::{try_join, try_join3};
use tokio_postgres::{
    Client, Error, Row as PgRow, Statement,
    types::{ToSql, Type},
};

use super::quiet_queues::QuietQueues;
use crate::backend::sql::{
    noted_queues::NotedQueues,
    outcome::{Outcome, Row},
    step::Step,
};

/// The columns of a reply with the clock, the beat and the connection's name.
const CLOCK: &str = "((extract(epoch FROM now()) * 1000000)::bigint)::text AS a, \
                     ((pg_current_wal_flush_lsn() - '0/0')::bigint)::text AS b, \
                     current_setting('distlock.connection', true) AS c";

/// The part of a reply for an entry that stays in its queue's row, which is locked.
const KEPT: i32 = -2;

/// Joins if the queue's row exists and the queue is empty. In READ COMMITTED, a statement that has
/// waited for the row uses its newest version, and draws its number then. The session's row is not
/// locked: an entry without a session counts as absent.
const TAKE: &str = "UPDATE distlock.queues SET number = nextval('distlock.numbers'), \
                    session = $2, ticket = $3::text::uuid, label = $4, value = $5, since = now(), \
                    page = distlock.page(ctid), moves = distlock.moves(ctid, page, moves) \
                    WHERE queue = $1 AND session IS NULL AND NOT crowded AND moves < 400 \
                    AND EXISTS (SELECT FROM distlock.sessions WHERE id = $2 AND NOT ended) \
                    AND NOT EXISTS (SELECT FROM distlock.sessions WHERE id = 0)";

/// Locks the entry in its row. It does nothing while another transaction has locked the row, such
/// as one that has checked the entry. Waiting for it would block the connection.
const HELD: &str = "SELECT queue FROM distlock.queues \
                    WHERE queue = $1 AND session = $2 AND ticket = $3::text::uuid AND label = $4 \
                    AND number = coalesce($5, number) FOR UPDATE SKIP LOCKED";

/// The deletion grants nothing, so it is not flushed: see `distlock.unflushed`. This is decided
/// after the entry was deleted, because before that, other entries may have joined behind it. A
/// release from the table of entries may be a grant.
const UNFLUSHED: &str = "CASE WHEN current_setting('synchronous_standby_names') = '' \
                         THEN set_config('synchronous_commit', 'off', true) END";

/// The statements that a connection has prepared.
#[derive(Clone)]
pub(super) struct Statements {
    join: Statement,
    leave: Statement,
    /// Like `join` and `leave`, without the function for queues with other entries.
    join_quiet: Statement,
    leave_quiet: Statement,
    /// Like `join` and `leave`, without the `UPDATE` before the function. The function's wait for a
    /// row is limited.
    join_crowded: Statement,
    leave_crowded: Statement,
    quiet: Arc<QuietQueues>,
}

impl Statements {
    pub(super) async fn prepare(client: &Client) -> Result<Self, Error> {
        let notes = "(EXISTS (SELECT FROM distlock.data WHERE dir = $1))::text AS e";
        let join_quiet =
            format!("{TAKE} RETURNING -1 AS part, {CLOCK}, number::text AS d, {notes}");
        let join_crowded = "SELECT part, a, b, c, d, e \
                            FROM distlock.enqueue_within($2, $1, $3::text::uuid, $4, $5, $6, $7)";
        let join = format!(
            "WITH taken AS ({TAKE} RETURNING number) \
             SELECT -1 AS part, {CLOCK}, number::text AS d, {notes} FROM taken UNION ALL \
             {join_crowded} WHERE NOT EXISTS (SELECT FROM taken)"
        );
        let gone = "UPDATE distlock.queues AS q SET session = NULL FROM held \
                    WHERE q.queue = held.queue RETURNING";
        let leave_quiet = format!(
            "WITH held AS MATERIALIZED ({HELD}) {gone} -1 AS part, {CLOCK}, number::text AS d, \
             'f' AS e, {UNFLUSHED}"
        );
        let leave_crowded = "SELECT part, a, b, c, d, e \
                             FROM distlock.leave_within($2, $1, $3::text::uuid, $4, $5, $6, $7)";
        let leave = format!(
            "WITH held AS MATERIALIZED ({HELD}), gone AS ({gone} number, {UNFLUSHED}) \
             SELECT -1 AS part, {CLOCK}, number::text AS d, 'f' AS e FROM gone UNION ALL \
             {leave_crowded} WHERE NOT EXISTS (SELECT FROM gone)"
        );
        let joins =
            [Type::TEXT, Type::INT8, Type::TEXT, Type::TEXT, Type::BYTEA, Type::BOOL, Type::INT4];
        let leaves =
            [Type::TEXT, Type::INT8, Type::TEXT, Type::TEXT, Type::INT8, Type::INT8, Type::INT4];
        let prepare_joins = try_join3(
            client.prepare_typed(&join, &joins),
            client.prepare_typed(&join_quiet, &joins[..5]),
            client.prepare_typed(join_crowded, &joins),
        );
        let prepare_leaves = try_join3(
            client.prepare_typed(&leave, &leaves),
            client.prepare_typed(&leave_quiet, &leaves[..5]),
            client.prepare_typed(leave_crowded, &leaves),
        );
        let (joins, leaves) = try_join(prepare_joins, prepare_leaves).await?;
        let ((join, join_quiet, join_crowded), (leave, leave_quiet, leave_crowded)) =
            (joins, leaves);
        let quiet = Arc::default();
        Ok(Self { join, leave, join_quiet, leave_quiet, join_crowded, leave_crowded, quiet })
    }

    /// Runs a step. Returns its rows, each of which begins with the number of its part, and whether
    /// the step was applied. A leave is not applied if a user's transaction has locked the entry.
    /// For an entry in the table of entries, it waits up to `patience` for the lock, as does a join
    /// of a queue with other entries.
    pub(super) async fn run(
        &self,
        client: &Client,
        session: i64,
        step: &Step,
        patience: Duration,
        crowded: &NotedQueues,
    ) -> Result<(Vec<Outcome>, bool), Error> {
        let is_crowded = crowded.contains(step.dir());
        let patience = i32::try_from(patience.as_millis()).unwrap_or(i32::MAX);
        let replied = match step {
            Step::Join { dir, ticket, label, value, if_free } => {
                let parameters: [&(dyn ToSql + Sync); 7] =
                    [dir, &session, ticket, label, value, if_free, &patience];
                let mut replied = Vec::new();
                if is_crowded {
                    replied = client.query(&self.join_crowded, &parameters).await?;
                } else if self.quiet.has_row(dir) {
                    replied = client.query(&self.join_quiet, &parameters[..5]).await?;
                }
                if replied.is_empty() {
                    replied = client.query(&self.join, &parameters).await?;
                }
                replied
            }
            Step::Leave { dir, ticket, label, number, successor } => {
                let parameters: [&(dyn ToSql + Sync); 7] =
                    [dir, &session, ticket, label, number, successor, &patience];
                let mut replied = Vec::new();
                if is_crowded {
                    replied = client.query(&self.leave_crowded, &parameters).await?;
                } else if self.quiet.was_joined_just_now(dir) {
                    replied = client.query(&self.leave_quiet, &parameters[..5]).await?;
                }
                // The entry may be in the queue's row after all.
                let is_kept = |row: &PgRow| matches!(row.try_get(0), Ok(KEPT));
                if replied.is_empty() || is_crowded && replied.iter().any(is_kept) {
                    replied = client.query(&self.leave, &parameters).await?;
                }
                replied
            }
        };
        let mut rows = Vec::with_capacity(replied.len() + 1);
        let (mut is_alone, mut done) = (false, true);
        for row in &replied {
            let part: i32 = row.try_get(0)?;
            if part >= 0 {
                rows.push(cells(row, part, 1..row.len())?);
                continue;
            }
            is_alone = true;
            rows.push(cells(row, 0, 1..4)?);
            if part == KEPT {
                done = false;
                continue;
            }
            let [number, others] = [row.try_get(4)?, row.try_get(5)?];
            rows.extend(alone(session, step, number, others));
        }
        // An entry may have been moved to the table only because it is watched.
        match step {
            _ if is_alone => crowded.note(step.dir(), false),
            Step::Join { dir, .. } => {
                let of_entry = |row: &&PgRow| matches!(row.try_get(0), Ok(1));
                crowded.note(dir, replied.iter().filter(of_entry).count() != 1);
            }
            Step::Leave { .. } => {}
        }
        match step {
            Step::Join { dir, .. } if is_alone => self.quiet.joined(dir),
            _ if is_alone => {}
            _ => self.quiet.forget(step.dir()),
        }
        Ok((vec![Outcome::new(rows, 0)], done))
    }
}

/// Returns what the functions would return for an entry that is, or was, in the queue's row.
/// `number` is the entry's number, and `others` is set if the queue has notes.
pub(super) fn alone(
    session: i64,
    step: &Step,
    number: Option<String>,
    others: Option<String>,
) -> Vec<Row> {
    let part = |part: &str| Some(part.to_owned());
    let none = || Some("f".to_owned());
    match step {
        Step::Join { ticket, label, .. } => {
            let session = Some(format!("{session:x}"));
            let own = [part("1"), number, session, part(ticket), part(label), others];
            // With `if_free`: the queue was empty.
            vec![Row::new(own.into()), Row::new(vec![part("2"), none(), none()])]
        }
        Step::Leave { .. } => {
            vec![Row::new(vec![part("1")]), Row::new(vec![part("2"), number, none()])]
        }
    }
}

/// Reads a row of text, which begins with the number of its part.
pub(super) fn cells(row: &PgRow, part: i32, columns: std::ops::Range<usize>) -> Result<Row, Error> {
    let cell = |column| Ok(row.try_get::<_, Option<&str>>(column)?.map(str::to_owned));
    let cells = columns.map(cell).collect::<Result<Vec<_>, Error>>()?;
    Ok(Row::new(std::iter::once(Some(part.to_string())).chain(cells).collect()))
}
