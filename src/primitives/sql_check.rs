//! What shows a transaction of the user's own that a lock is held, and keeps it held until that
//! transaction ends.

use std::{borrow::Cow, fmt};

use crate::{backend::Entry, primitives::guard::LockGuard, store_kind::StoreKind};

/// Which SQL it is, and so which way its parameters are marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SqlDialect {
    /// MySQL's and MariaDB's: `?`.
    Mysql,
    /// PostgreSQL's: `$1`, `$2`.
    Postgres,
    /// SQLite's: `?1`, `?2`.
    Sqlite,
}

impl fmt::Display for SqlDialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mysql => "MySQL",
            Self::Postgres => "PostgreSQL",
            Self::Sqlite => "SQLite",
        })
    }
}

/// A parameter of a [`SqlCheck`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SqlParameter {
    /// A text: `text` on PostgreSQL.
    Text(String),
    /// A number: `bigint` on PostgreSQL.
    Integer(i64),
}

/// A query that returns a row while a lock is held, for a transaction of one's own: from
/// [`LockGuard::sql`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlCheck {
    dialect: SqlDialect,
    text: Cow<'static, str>,
    parameters: Vec<SqlParameter>,
}

impl SqlCheck {
    /// Whose SQL it is.
    #[must_use]
    pub fn dialect(&self) -> SqlDialect {
        self.dialect
    }

    /// One `SELECT`. On PostgreSQL and SQLite it is the same for all guards, so that it may be
    /// prepared once. On MySQL what it asks for is written into it, so that it depends on no
    /// character set and on no `sql_mode`.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What belongs in the places of the text, in their order: on PostgreSQL a text and a number,
    /// on SQLite three numbers, on MySQL nothing.
    #[must_use]
    pub fn parameters(&self) -> &[SqlParameter] {
        &self.parameters
    }

    /// One query that returns a row if each of these does. `None` if there is none of them, or if
    /// they are not of one database.
    pub(crate) fn all(checks: Vec<Self>) -> Option<Self> {
        let dialect = checks.first()?.dialect;
        let (mut queries, mut parameters) = (Vec::new(), Vec::new());
        for (number, check) in checks.into_iter().enumerate() {
            if check.dialect != dialect {
                return None;
            }
            let text = renumbered(dialect, &check.text, parameters.len());
            queries.push(format!("({text}) AS lock_{number}"));
            parameters.extend(check.parameters);
        }
        let text = format!("SELECT 1 FROM {}", queries.join(", ")).into();
        Some(Self { dialect, text, parameters })
    }

    #[cfg(feature = "mysql")]
    fn mysql(entry: &Entry, purpose: Purpose) -> Option<Self> {
        use crate::backend::mysql::{held, unlock};
        let text = match purpose {
            Purpose::Check => held(entry),
            Purpose::Release => unlock(entry),
        };
        Some(Self { dialect: SqlDialect::Mysql, text: text?.into(), parameters: Vec::new() })
    }

    #[cfg(feature = "postgres")]
    fn postgres(entry: &Entry, purpose: Purpose) -> Option<Self> {
        use crate::backend::postgres::schema::{HELD, UNLOCK};
        let (queue, _) = entry.key.rsplit_once('/')?;
        let number = i64::try_from(entry.revision).ok()?;
        let text = match purpose {
            Purpose::Check => HELD,
            Purpose::Release => UNLOCK,
        };
        Some(Self {
            dialect: SqlDialect::Postgres,
            text: text.into(),
            parameters: vec![SqlParameter::Text(queue.into()), SqlParameter::Integer(number)],
        })
    }

    #[cfg(feature = "sqlite")]
    fn sqlite(entry: &Entry, purpose: Purpose) -> Option<Self> {
        use crate::backend::sqlite::{
            key::session_of,
            schema::{HELD, UNLOCK},
            tables::now,
        };
        let mut parameters = vec![i64::try_from(entry.revision).ok()?, session_of(&entry.key)?];
        let text = match purpose {
            Purpose::Check => HELD,
            Purpose::Release => UNLOCK,
        };
        if purpose == Purpose::Check {
            parameters.push(now());
        }
        Some(Self {
            dialect: SqlDialect::Sqlite,
            text: text.into(),
            parameters: parameters.into_iter().map(SqlParameter::Integer).collect(),
        })
    }
}

/// What a statement is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Check,
    Release,
}

impl LockGuard {
    /// The query by which a transaction of your own, in the same database and with any driver,
    /// writes only while this lock is held. `None` for a guard of a store that is no SQL database.
    ///
    /// Ask it at the beginning of the transaction. **If it returns a row**, the lock is held,
    /// whatever this process knows of it, and is not given to anybody else before the transaction
    /// ends: what it writes is written under the lock. **Without a row**, or with an error, roll
    /// back: the session is over, or somebody has deleted the key. A holder that was stopped for
    /// longer than its TTL gets no row, even if nobody else has come since.
    ///
    /// - On PostgreSQL and MySQL the row of the entry is locked by it (`FOR KEY SHARE`, `LOCK IN
    ///   SHARE MODE`): it has to be in the transaction that writes. Let it be the first statement.
    ///   With more than `READ COMMITTED` it may be refused (40001, MariaDB's 1020): that is an
    ///   error like any other, roll back and begin anew. And on MySQL it finds the session's end as
    ///   it was known when the transaction first read: later in the transaction it may find no row
    ///   though the lock is held.
    /// - On MySQL and MariaDB the first other client that waits for the lock joins its queue only
    ///   when the transaction has ended. Until then it asks again and again, 20 times a second at
    ///   most, and others may come before it.
    /// - On a **Galera** cluster it is not enough: what another server commits meanwhile is noticed
    ///   only where both write to the same row.
    /// - On SQLite begin by `BEGIN IMMEDIATE`: then nobody else writes before the end. A
    ///   transaction that begins as a reader may be refused to write (`SQLITE_BUSY_SNAPSHOT`), and
    ///   then has written nothing. The last parameter is what the clock shows at this call: make
    ///   the call in the transaction. One that was made before may let in a holder whose session is
    ///   over, but never one whose lock was given to another.
    /// - On SQLite `synchronous` of your connection decides whether your commit outlasts a loss of
    ///   power. `FULL`, SQLite's default, flushes it, with all that was committed before it. At
    ///   `NORMAL` it may be undone, with all that was committed after it. No connection to the file
    ///   may be at `OFF`.
    /// - On PostgreSQL make the check outside of savepoints (nested transactions of sqlx or
    ///   Django):
    ///   `ROLLBACK TO SAVEPOINT` releases the row locks that were taken after the savepoint. From
    ///   then on the transaction no longer keeps the lock held.
    /// - A transaction that takes longer than the session lives keeps the next holder waiting.
    ///   Commit before you unlock: the unlocking waits for it.
    ///
    /// With the driver that distlock has itself, `postgres::check`, `mysql::check` and
    /// `sqlite::check` do all of that.
    ///
    /// It holds for every guard: what reads beside others, a permit and a leadership are such
    /// guards, too.
    ///
    /// # Examples
    ///
    /// With the features `sqlx-0_9` and `diesel-2` it is one call. With sqlx 0.8:
    ///
    /// ```text
    /// let check = guard.sql().expect("a guard of PostgreSQL's");
    /// let mut transaction = pool.begin().await?;
    /// let mut query = sqlx::query(check.text());
    /// for parameter in check.parameters() {
    ///     query = match parameter {
    ///         SqlParameter::Text(text) => query.bind(text),
    ///         SqlParameter::Integer(number) => query.bind(number),
    ///         _ => unreachable!("there are no others so far"),
    ///     };
    /// }
    /// if query.fetch_optional(&mut *transaction).await?.is_none() {
    ///     return transaction.rollback().await; // the lock is lost
    /// }
    /// sqlx::query("UPDATE …").execute(&mut *transaction).await?;
    /// transaction.commit().await?;
    /// ```
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-sql").await?;
    /// let guard = client.mutex("a").lock().await?;
    /// assert!(guard.sql().is_none(), "memory has no tables");
    /// # guard.unlock().await }
    /// ```
    #[must_use]
    pub fn sql(&self) -> Option<SqlCheck> {
        self.statement(Purpose::Check)
    }

    /// Whose SQL it takes.
    #[allow(dead_code)] // Without a driver of others.
    pub(crate) fn dialect(&self) -> Option<SqlDialect> {
        self.sql().map(|check| check.dialect)
    }

    /// A statement of the store's that this guard is kept in. `None`: that is no SQL database.
    pub(super) fn statement(&self, purpose: Purpose) -> Option<SqlCheck> {
        let made: &[Make] = &[
            #[cfg(feature = "mysql")]
            (StoreKind::Mysql, SqlCheck::mysql),
            #[cfg(feature = "postgres")]
            (StoreKind::Postgres, SqlCheck::postgres),
            #[cfg(feature = "sqlite")]
            (StoreKind::Sqlite, SqlCheck::sqlite),
        ];
        made.iter().find_map(|(store, make)| {
            let entry = self.entry_in(*store)?;
            self.held.session.store.gives_sql(entry);
            make(entry, purpose)
        })
    }
}

/// The text with numbers of parameters that come after this many others.
fn renumbered(dialect: SqlDialect, text: &str, before: usize) -> String {
    let mark = match dialect {
        SqlDialect::Postgres => '$',
        SqlDialect::Sqlite => '?',
        // It has no parameters, and may have any character in its literals.
        SqlDialect::Mysql => return text.to_owned(),
    };
    let mut parts = text.split(mark);
    let mut renumbered = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.bytes().take_while(u8::is_ascii_digit).count();
        let (number, rest) = part.split_at(digits);
        renumbered.push(mark);
        if let Ok(number) = number.parse::<usize>() {
            renumbered += &(number + before).to_string();
        }
        renumbered += rest;
    }
    renumbered
}

/// Of which store's entries it is made.
type Make = (StoreKind, fn(&Entry, Purpose) -> Option<SqlCheck>);

/// Why a transaction of one's own may not write.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckError<E> {
    /// The lock is not held any more: roll back. Somebody else may hold it.
    #[error("the lock {name:?} is not held any more: roll back")]
    #[non_exhaustive]
    NotHeld {
        /// The lock's name.
        name: String,
    },
    /// The lock is in a store of another kind than the transaction. Nothing was asked.
    #[error("the lock {name:?} is kept on {store}: no transaction of {asked}'s can check it")]
    #[non_exhaustive]
    OtherStore {
        /// The lock's name.
        name: String,
        /// Where it is kept.
        store: StoreKind,
        /// Which database the transaction is in.
        asked: SqlDialect,
    },
    /// The database has not answered the question: it is not known whether the lock is held. Roll
    /// back.
    #[error("the database did not say whether the lock is held: roll back")]
    Database(#[source] E),
}

/// What a door needs of a guard, or why there is none.
#[allow(dead_code)] // Without a driver.
pub(crate) fn of<E>(guard: &LockGuard, asked: SqlDialect) -> Result<SqlCheck, CheckError<E>> {
    let check = guard.sql().filter(|check| check.dialect == asked);
    check.ok_or_else(|| CheckError::OtherStore {
        name: guard.name().to_owned(),
        store: guard.held.session.shared.backend.kind(),
        asked,
    })
}

/// What a door tells of an answer.
#[allow(dead_code)] // Without a driver.
pub(crate) fn confirmed<E>(guard: &LockGuard, held: Result<bool, E>) -> Result<(), CheckError<E>> {
    match held {
        Ok(true) => Ok(()),
        Ok(false) => Err(CheckError::NotHeld { name: guard.name().to_owned() }),
        Err(error) => Err(CheckError::Database(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_of_several_locks_are_one_query() {
        let check = |number: i64| SqlCheck {
            dialect: SqlDialect::Postgres,
            text: "SELECT 1 FROM e WHERE q = $1 AND n = $2 FOR KEY SHARE".into(),
            parameters: vec![SqlParameter::Text("q".into()), SqlParameter::Integer(number)],
        };
        let all = SqlCheck::all(vec![check(7), check(8)]).expect("of one database");
        assert_eq!(
            all.text(),
            "SELECT 1 FROM (SELECT 1 FROM e WHERE q = $1 AND n = $2 FOR KEY SHARE) AS lock_0, \
             (SELECT 1 FROM e WHERE q = $3 AND n = $4 FOR KEY SHARE) AS lock_1"
        );
        assert_eq!(all.parameters()[1], SqlParameter::Integer(7));
        assert_eq!(all.parameters()[3], SqlParameter::Integer(8));
        let other = SqlCheck { dialect: SqlDialect::Sqlite, ..check(9) };
        assert_eq!(SqlCheck::all(vec![check(7), other]), None);
        assert_eq!(SqlCheck::all(Vec::new()), None);
    }
}
