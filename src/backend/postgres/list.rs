//! All that is in a queue.

use super::{
    statements,
    store::{PostgresStore, READ, Registered},
};
use crate::backend::{
    Ask, Event, Listing, Watch,
    error::Result,
    name::Queue,
    sql::{
        outcome::Row,
        told::{last, left, member, nonsense},
    },
};

impl PostgresStore {
    /// There is one server that can be written to, and what it answers is true now.
    pub(super) async fn read_all(&self, queue: &Queue, ask: Ask) -> Result<Listing> {
        let (dir, session) = (queue.dir(), self.line.session);
        let registered = ask.watch.then(|| Registered::new(&self.line, dir, 0));
        let sql = statements::list(session, dir, ask.values, ask.watch);
        let outcomes = self.line.ask(READ, sql).await?;
        let rows = last(&outcomes)?.rows();
        let (notes, members): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row.text(0).is_none());
        let watch = registered.map(|mut registered| {
            let end = |row: &&Row| {
                let owner = i64::from_str_radix(row.text(1)?, 16).ok()?;
                Some((owner, left(row.number(4)?))).filter(|(owner, _)| *owner != session)
            };
            self.line.watches.note(&registered.what, members.iter().filter_map(end));
            Box::pin(async move { registered.news().await.map(|()| Event::Touched) }) as Watch
        });
        let members = members.into_iter().map(|row| member(session, dir, row, ask.values));
        Ok(Listing {
            members: members.collect::<Option<_>>().ok_or_else(nonsense)?,
            notes: notes.iter().filter_map(|row| row.text(8)).map(Into::into).collect(),
            watch,
        })
    }
}
