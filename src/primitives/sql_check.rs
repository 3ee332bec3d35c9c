//! The query with which a transaction of the user's own checks that a lock is held. The lock then
//! stays held until the transaction ends.

use std::{borrow::Cow, fmt};

use crate::{backend::Entry, primitives::guard::LockGuard, store_kind::StoreKind};

/// Names an SQL dialect, which determines how parameters are marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SqlDialect {
    /// MySQL and MariaDB: `?`. The statements of distlock have no parameters there.
    Mysql,
    /// PostgreSQL: `$1`, `$2`.
    Postgres,
    /// SQLite: `?1`, `?2`.
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

/// Holds a parameter of a [`SqlCheck`] or a [`SqlRelease`](crate::SqlRelease).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SqlParameter {
    /// A text: `text` on PostgreSQL.
    Text(String),
    /// A number: `bigint` on PostgreSQL.
    Integer(i64),
}

/// Holds a query that returns a row only while its locks are held.
///
/// Created by [`LockGuard::sql`] and [`MultiLockGuard::sql`](crate::MultiLockGuard::sql), for your
/// own transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlCheck {
    dialect: SqlDialect,
    text: Cow<'static, str>,
    parameters: Vec<SqlParameter>,
}

impl SqlCheck {
    /// Returns the dialect of the query.
    #[must_use]
    pub fn dialect(&self) -> SqlDialect {
        self.dialect
    }

    /// Returns the query: one `SELECT`.
    ///
    /// On PostgreSQL and SQLite the text depends only on the number of locks, so it can be prepared
    /// once. On MySQL the text contains the values as literals that depend on no character set and
    /// on no `sql_mode`.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the parameters, in the order in which they appear in the text.
    ///
    /// For each lock, PostgreSQL has a text and a number, SQLite has three numbers, and MySQL has
    /// none.
    #[must_use]
    pub fn parameters(&self) -> &[SqlParameter] {
        &self.parameters
    }

    /// Returns a query that returns a row only if all of these checks do. `None` if there are none,
    /// or if they are of several dialects.
    pub(crate) fn all(checks: Vec<Self>) -> Option<Self> {
        let dialect = checks.first()?.dialect;
        let (mut queries, mut parameters) = (Vec::new(), Vec::new());
        for (number, check) in checks.into_iter().enumerate() {
            if check.dialect != dialect {
                return None;
            }
            let text = renumbered(dialect, &check.text, parameters.len());
            queries.push(match dialect {
                SqlDialect::Mysql => format!("({text}) AS lock_{number}"),
                SqlDialect::Postgres | SqlDialect::Sqlite => format!("EXISTS ({text})"),
            });
            parameters.extend(check.parameters);
        }
        // SQLite joins at most 64 tables. For a join of several functions, PostgreSQL expects
        // billions of rows, and compiles the query (`jit`), which takes far longer than running it.
        let text = match dialect {
            SqlDialect::Mysql => format!("SELECT 1 FROM {}", queries.join(", ")),
            SqlDialect::Postgres | SqlDialect::Sqlite => {
                format!("SELECT 1 WHERE {}", queries.join(" AND "))
            }
        };
        Some(Self { dialect, text: text.into(), parameters })
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

/// The purpose of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Check,
    Release,
}

impl LockGuard {
    /// Returns the query with which a transaction checks that this lock is held.
    ///
    /// The result is `None` if the store is not an SQL database.
    ///
    /// Run the query at the beginning of your own transaction, in the same database and with any
    /// driver:
    ///
    /// - **If the query returns a row**, the lock is held, even if this process considers it lost.
    ///   No client is granted the lock in the holder's place before the transaction ends, so
    ///   everything that the transaction writes is written under the lock.
    /// - **If the query returns no row**, roll back: the session has expired or was closed, an
    ///   operator has evicted the holder, or the lock was released. A holder that was stopped for
    ///   longer than its TTL gets no row, even if no other client has acquired the lock since.
    /// - If the query fails, roll back, too.
    ///
    /// These conditions apply:
    ///
    /// - On PostgreSQL and MySQL, run the query in the transaction that writes, as its first
    ///   statement. The query locks the row of the holder's entry (`FOR KEY SHARE`,
    ///   `LOCK IN SHARE MODE`), and on PostgreSQL also the row of the holder's session.
    /// - At an isolation level above `READ COMMITTED`, the query may be refused (40001, MariaDB's
    ///   1020). Roll back and begin again, as after any other error. On MySQL and MariaDB at
    ///   `REPEATABLE READ`, their default, the query uses the session's expiry time as of the
    ///   transaction's first read. Later in the transaction, it may therefore return no row
    ///   although the lock is held.
    /// - On MySQL and MariaDB at `SERIALIZABLE`, the query also locks the row of the client's
    ///   session, and keepalives wait until the transaction ends. Keep the transaction much shorter
    ///   than the TTL, or the client's locks are lost.
    /// - On MySQL and MariaDB, if no client waits for the lock when the query runs, usually no
    ///   client can join the queue until the transaction ends. Clients retry about 20 times a
    ///   second, so they may join in a different order than they arrived.
    /// - On a **Galera** cluster, the query is not sufficient. A conflicting commit on another
    ///   server is detected only if both transactions write to the same row.
    /// - On SQLite, begin with `BEGIN IMMEDIATE`, so that no other connection writes before the
    ///   transaction ends. If a transaction begins as a reader, SQLite may refuse its first write
    ///   (`SQLITE_BUSY_SNAPSHOT`). In that case, the transaction has written nothing.
    /// - On SQLite, the last parameter is the time at which `sql` was called, so call `sql` in the
    ///   transaction. A query from an earlier call may accept a holder whose session has expired,
    ///   but never a holder whose lock was granted to another client.
    /// - On SQLite, the `synchronous` setting of your connection determines whether your commit
    ///   survives a power failure. With `FULL`, SQLite's default, the commit is flushed together
    ///   with all earlier commits. With `NORMAL`, a power failure may undo the commit, together
    ///   with all later commits. No connection to the file may use `OFF`.
    /// - On PostgreSQL, run the query outside of savepoints, which sqlx and Django use for nested
    ///   transactions. `ROLLBACK TO SAVEPOINT` releases the row locks that were taken after the
    ///   savepoint. From then on, the transaction no longer keeps the lock held.
    /// - A transaction that outlasts the session keeps the next holder waiting. Commit before you
    ///   unlock, because the release waits for the transaction.
    ///
    /// With the drivers that distlock uses itself, `postgres::check`, `mysql::check` and
    /// `sqlite::check` bind the parameters and run the query.
    ///
    /// The query works for every guard, including read guards, permits and leaderships.
    ///
    /// # Examples
    ///
    /// The modules of the features `sqlx-0_9` and `diesel-2` run the query with one call. With sqlx
    /// 0.8:
    ///
    /// ```text
    /// let check = guard.sql().expect("the lock is in PostgreSQL");
    /// let mut transaction = pool.begin().await?;
    /// let mut query = sqlx::query(check.text());
    /// for parameter in check.parameters() {
    ///     query = match parameter {
    ///         SqlParameter::Text(text) => query.bind(text),
    ///         SqlParameter::Integer(number) => query.bind(number),
    ///         _ => unreachable!("no other kinds exist"),
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

    /// Returns the dialect of the lock's store.
    #[allow(dead_code)] // Unused without a third-party driver.
    pub(crate) fn dialect(&self) -> Option<SqlDialect> {
        self.sql().map(|check| check.dialect)
    }

    /// Returns a statement for this guard's store. `None` if that is not an SQL database.
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

/// Returns the text with its parameter numbers raised by `before`.
fn renumbered(dialect: SqlDialect, text: &str, before: usize) -> String {
    let mark = match dialect {
        SqlDialect::Postgres => '$',
        SqlDialect::Sqlite => '?',
        // It has no parameters, and its literals may contain any character.
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

/// A store, and the function that makes a statement for its entries.
type Make = (StoreKind, fn(&Entry, Purpose) -> Option<SqlCheck>);

/// Describes why a transaction must not write.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckError<E> {
    /// The lock is no longer held. Roll back: another client may hold it.
    #[error("the lock {name:?} is no longer held: roll back")]
    #[non_exhaustive]
    NotHeld {
        /// The lock's name.
        name: String,
    },
    /// The lock is in a different kind of store from the transaction. Nothing was sent.
    #[error("{}", other_store(.name, .store, .asked))]
    #[non_exhaustive]
    OtherStore {
        /// The lock's name.
        name: String,
        /// The store of the lock.
        store: StoreKind,
        /// The dialect of the transaction's database.
        ///
        /// With a driver that distlock does not know, such as sqlx's `Any` or a backend of your own
        /// for diesel, this is `Postgres`.
        asked: SqlDialect,
    },
    /// The database did not return a result, so it is unknown whether the lock is held. Roll back.
    #[error("the database did not report whether the lock is held: roll back")]
    Database(#[source] E),
}

/// Returns the text of [`CheckError::OtherStore`]. No dialect is of use for a store without SQL, so
/// the text does not name the transaction's.
fn other_store(name: &str, store: &StoreKind, asked: &SqlDialect) -> String {
    let stored = format!("the lock {name:?} is stored on {store}");
    match store {
        StoreKind::Mysql | StoreKind::Postgres | StoreKind::Sqlite => format!(
            "{stored}: a transaction on {asked} cannot check or release it; use a transaction in \
             the database of the lock"
        ),
        _ => format!(
            "{stored}: no SQL transaction can check or release it; compare fencing tokens instead"
        ),
    }
}

/// Returns the check of a guard for a driver of this dialect. Fails if the lock's store has another
/// dialect, or none.
#[allow(dead_code)] // Unused without a driver.
pub(crate) fn of<E>(guard: &LockGuard, asked: SqlDialect) -> Result<SqlCheck, CheckError<E>> {
    let check = guard.sql().filter(|check| check.dialect == asked);
    check.ok_or_else(|| CheckError::OtherStore {
        name: guard.name().to_owned(),
        store: guard.held.session.shared.backend.kind(),
        asked,
    })
}

/// Turns the result of the query into a result of `check`. `held` is `true` if there was a row.
#[allow(dead_code)] // Unused without a driver.
pub(crate) fn confirmed<E>(guard: &LockGuard, held: Result<bool, E>) -> Result<(), CheckError<E>> {
    match held {
        Ok(true) => Ok(()),
        Ok(false) => Err(CheckError::NotHeld { name: guard.name().to_owned() }),
        Err(error) => Err(CheckError::Database(error)),
    }
}

#[cfg(test)]
mod tests;
