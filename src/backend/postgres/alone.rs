//! Joining and leaving: the two requests that are made most. Each connection has prepared both.
//!
//! An entry that is alone in its queue is stored in the queue's own row (see `distlock.queues` in
//! `tables.sql`), and one `UPDATE` puts it there or takes it away. Where that finds nothing to do,
//! the same statement goes on with a function, for which others may be in the queue. The server
//! prepares for that each time, which takes a tenth of its work: where nobody else was in the queue
//! a moment ago it is not asked to, and if the `UPDATE` has found nothing, it is asked again.

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

/// The part of a reply that the clock's is made of, and others.
const CLOCK: &str = "((extract(epoch FROM now()) * 1000000)::bigint)::text AS a, \
                     ((pg_current_wal_flush_lsn() - '0/0')::bigint)::text AS b, \
                     current_setting('distlock.connection', true) AS c";

/// The part of a reply for an entry that is still in its queue's row, which is locked.
const KEPT: i32 = -2;

/// What joins, if the queue's row is there and nobody is in the queue. In READ COMMITTED, one that
/// waits for the row decides by its newest version, and draws its number then. The session's row is
/// not locked: an entry whose session is not there is gone.
const TAKE: &str = "UPDATE distlock.queues SET number = nextval('distlock.numbers'), \
                    session = $2, ticket = $3::text::uuid, label = $4, value = $5, since = now(), \
                    page = distlock.page(ctid), moves = distlock.moves(ctid, page, moves) \
                    WHERE queue = $1 AND session IS NULL AND NOT crowded AND moves < 400 \
                    AND EXISTS (SELECT FROM distlock.sessions WHERE id = $2 AND NOT ended) \
                    AND NOT EXISTS (SELECT FROM distlock.sessions WHERE id = 0)";

/// What locks the entry in its row. It does nothing while a transaction has the row locked, such as
/// one that has checked that the entry is there: waiting for it, the connection could do nothing
/// else.
const HELD: &str = "SELECT queue FROM distlock.queues \
                    WHERE queue = $1 AND session = $2 AND ticket = $3::text::uuid AND label = $4 \
                    AND number = coalesce($5, number) FOR UPDATE SKIP LOCKED";

/// Nobody is granted anything by the deletion, so that it is not flushed: see
/// `distlock.unflushed`. That is decided once the entry is gone. Before, others may have come
/// behind it, and a release from the table of entries is a grant.
const UNFLUSHED: &str = "CASE WHEN current_setting('synchronous_standby_names') = '' \
                         THEN set_config('synchronous_commit', 'off', true) END";

/// The statements, as one connection has prepared them.
#[derive(Clone)]
pub(super) struct Statements {
    join: Statement,
    leave: Statement,
    /// The same without what follows if others are in the queue.
    join_quiet: Statement,
    leave_quiet: Statement,
    /// The same without what goes before.
    join_crowded: Statement,
    leave_crowded: Statement,
    quiet: Arc<QuietQueues>,
}

impl Statements {
    pub(super) async fn prepare(client: &Client) -> Result<Self, Error> {
        let notes = "(EXISTS (SELECT FROM distlock.data WHERE dir = $1))::text AS e";
        let join_quiet =
            format!("{TAKE} RETURNING -1 AS part, {CLOCK}, number::text AS d, {notes}");
        let join_crowded =
            "SELECT part, a, b, c, d, e FROM distlock.enqueue($2, $1, $3::text::uuid, $4, $5, $6)";
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
        let joins = [Type::TEXT, Type::INT8, Type::TEXT, Type::TEXT, Type::BYTEA, Type::BOOL];
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

    /// The rows of its reply, each of which begins with the number of its part; and whether it was
    /// done: not if a transaction of a user's keeps the entry that was to leave. One that keeps it
    /// in the table of entries is waited for, for so long.
    pub(super) async fn run(
        &self,
        client: &Client,
        session: i64,
        step: &Step,
        patience: Duration,
        crowded: &NotedQueues,
    ) -> Result<(Vec<Outcome>, bool), Error> {
        let is_crowded = crowded.contains(step.dir());
        let replied = match step {
            Step::Join { dir, ticket, label, value, if_free } => {
                let parameters: [&(dyn ToSql + Sync); 6] =
                    [dir, &session, ticket, label, value, if_free];
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
                let patience = i32::try_from(patience.as_millis()).unwrap_or(i32::MAX);
                let parameters: [&(dyn ToSql + Sync); 7] =
                    [dir, &session, ticket, label, number, successor, &patience];
                let mut replied = Vec::new();
                if is_crowded {
                    replied = client.query(&self.leave_crowded, &parameters).await?;
                } else if self.quiet.was_joined_just_now(dir) {
                    replied = client.query(&self.leave_quiet, &parameters[..5]).await?;
                }
                // It is in the queue's row after all, perhaps.
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
        // An entry that leaves may have been moved just because it is looked after.
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

/// What the functions would return of an entry that was put into the queue's row, or was there: the
/// entry with this number; `others`: there are notes on the queue.
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
            // With `if_free`: nobody was there.
            vec![Row::new(own.into()), Row::new(vec![part("2"), none(), none()])]
        }
        Step::Leave { .. } => {
            vec![Row::new(vec![part("1")]), Row::new(vec![part("2"), number, none()])]
        }
    }
}

/// A row of text, which begins with the number of its part.
pub(super) fn cells(row: &PgRow, part: i32, columns: std::ops::Range<usize>) -> Result<Row, Error> {
    let cell = |column| Ok(row.try_get::<_, Option<&str>>(column)?.map(str::to_owned));
    let cells = columns.map(cell).collect::<Result<Vec<_>, Error>>()?;
    Ok(Row::new(std::iter::once(Some(part.to_string())).chain(cells).collect()))
}
