//! All that is in a queue.

use super::{
    looks, statements,
    store::{MysqlStore, READ, Registered},
};
use crate::backend::{
    Ask, Event, Listing, Watch,
    error::Result,
    name::Queue,
    sql::told::{last, member, nonsense},
};

impl MysqlStore {
    /// There is one server that can be written to, and what it answers is true now.
    pub(super) async fn read_all(&self, queue: &Queue, ask: Ask) -> Result<Listing> {
        let (dir, session) = (queue.dir(), self.line.session);
        let list = statements::list(dir, ask.values);
        let (rows, watch) = if ask.watch {
            let what = (dir.into(), 0);
            let mut registered = Registered::new(&self.line, what);
            let what = (dir.into(), 0);
            let message = looks::listed(session, &what, list);
            let outcomes = self.line.ask(READ, message).await?;
            let [.., seen, rows] = outcomes.as_slice() else { return Err(nonsense()) };
            let (_, seen) = seen.first().and_then(looks::read).ok_or_else(nonsense)?;
            self.line.watches.note(&what, seen);
            let watch = async move { registered.news().await.map(|()| Event::Touched) };
            (rows.rows().to_vec(), Some(Box::pin(watch) as Watch))
        } else {
            let message = statements::reads(session, vec![list]).sweeping();
            let outcomes = self.line.ask(READ, message).await?;
            (last(&outcomes)?.rows().to_vec(), None)
        };
        let (notes, members): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row.text(0).is_none());
        let members = members.into_iter().map(|row| member(session, dir, row, ask.values));
        Ok(Listing {
            members: members.collect::<Option<_>>().ok_or_else(nonsense)?,
            notes: notes.iter().filter_map(|row| row.text(8)).map(Into::into).collect(),
            watch,
        })
    }
}
