//! For those who look after a file of locks, or write to it themselves: the tables that the locks
//! are kept in, and the condition that a transaction of their own needs.

use std::path::Path;

pub use crate::backend::sqlite::requests::Requests;
use crate::{
    backend::sqlite::{
        key, line,
        schema::{DDL, HELD},
        tables::now,
    },
    primitives::guard::LockGuard,
};

/// A query that returns a row while the lock is held, whatever this process knows of it, and its
/// three parameters. `None` for a guard of another store.
///
/// Asked in a transaction on the same file, before the transaction writes, it makes the writes
/// those of a holder: nobody else can be given the lock before that transaction ends, since SQLite
/// has one writer at a time. Begin it by `BEGIN IMMEDIATE`: one that begins as a reader may be
/// refused to write (`SQLITE_BUSY_SNAPSHOT`), and then has written nothing. Without a row, roll
/// back. Any driver will do; the crate's own types are not named here, so that your version of it
/// may be another one, as long as there is only one SQLite in the program.
///
/// The last parameter is what the clock shows at this call: ask soon. Asked late, it may let in a
/// holder whose session is over, but never one whose lock was given to another.
///
/// All connections to a file have to open it by the same SQLite library: two of them in one process
/// undo each other's locks.
///
/// With [`local_handover`](crate::Builder::local_handover) all guards of one client's have the same
/// entry, so that it holds for the next one's as well: only the token tells them apart.
///
/// # Examples
///
/// ```no_run
/// use rusqlite::{Connection, TransactionBehavior::Immediate};
///
/// # fn example(guard: &distlock::LockGuard, database: &mut Connection) -> rusqlite::Result<()> {
/// let transaction = database.transaction_with_behavior(Immediate)?;
/// let (sql, parameters) = distlock::sqlite::check(guard).expect("a guard of SQLite's");
/// let held = transaction.prepare(sql)?.exists(parameters)?;
/// assert!(held, "the lock is lost, and nothing was written");
/// transaction.execute("UPDATE account SET balance = balance - 10 WHERE id = 1", [])?;
/// transaction.commit()
/// # }
/// ```
#[must_use]
pub fn check(guard: &LockGuard) -> Option<(&'static str, [i64; 3])> {
    let entry = guard.entry_in("SQLite")?;
    let (number, session) = (i64::try_from(entry.revision).ok()?, key::session_of(&entry.key)?);
    Some((HELD, [number, session, now()]))
}

/// The SQL that makes distlock's tables, whose names begin with `distlock_`.
///
/// A client makes them at its first use of a file. Nothing else in the file is touched but its
/// journal, which becomes a [WAL](https://sqlite.org/wal.html).
///
/// # Examples
///
/// ```
/// println!("{}", distlock::sqlite::schema());
/// ```
#[must_use]
pub fn schema() -> &'static str {
    DDL
}

/// What all clients of this process have asked of a file since it was opened: there is no server to
/// tell that. `None`: none of them has it open.
///
/// # Examples
///
/// ```no_run
/// let asked = distlock::sqlite::requests("/run/app/locks.db").unwrap_or_default();
/// println!("{} writes in {} commits", asked.writes + asked.keepalives, asked.commits);
/// ```
#[must_use]
pub fn requests(file: impl AsRef<Path>) -> Option<Requests> {
    line::requests(file.as_ref())
}
