//! Checks and releases locks in transactions of [diesel] 2.
//!
//! This module needs the feature `diesel-2`, and that of a store: `postgres`, `mysql` or `sqlite`.
//! Its functions execute the statements of [`LockGuard::sql`] and [`LockGuard::unlock_sql`] on
//! these stores.
//!
//! This crate does not enable any of diesel's backends: your program chooses them. If diesel's
//! feature `sqlite` and this crate's feature `sqlite` are both enabled, cargo selects a version of
//! `rusqlite` that uses the same SQLite library.
//!
//! [diesel]: https://docs.rs/diesel

use std::any::type_name;

use diesel_2::{
    Connection, RunQueryDsl,
    backend::Backend,
    deserialize::{self, QueryableByName},
    query_builder::{BoxedSqlQuery, SqlQuery},
    query_dsl::methods::{ExecuteDsl, LoadQuery},
    result::Error,
    row::NamedRow,
    serialize::ToSql,
    sql_query,
    sql_types::{BigInt, HasSqlType, Text},
};

use crate::primitives::{
    guard::LockGuard,
    sql_check::{self, CheckError, SqlCheck, SqlDialect, SqlParameter},
    sql_release::SqlRelease,
};

/// Checks in the connection's transaction that the lock is held.
///
/// After a successful check, no client is granted the lock in the holder's place before the
/// transaction ends. This function runs [`LockGuard::sql`] with diesel. Call it before any other
/// statement of the transaction, in the database that stores the lock. On SQLite, begin the
/// transaction with `immediate_transaction`.
///
/// On PostgreSQL, do not call it inside a savepoint, such as a nested transaction. Rolling back the
/// savepoint releases the row locks that keep the lock held.
///
/// On a Galera cluster, this check is not sufficient: see [`LockGuard::sql`].
///
/// # Errors
///
/// [`CheckError::NotHeld`] if the lock is no longer held. [`CheckError::OtherStore`] if the lock is
/// in another kind of store. [`CheckError::Database`] if the query failed. Roll back after every
/// error: otherwise, the transaction may write without the lock.
///
/// If the connection's backend is not part of diesel, its kind of database is unknown. The query
/// for a lock in an SQL database is then sent in any case, and fails if the connection is to
/// another kind of database.
///
/// # Examples
///
/// See `examples/drivers` for a complete program.
///
/// ```ignore
/// connection.immediate_transaction(|connection| {
///     distlock::diesel_2::check(&guard, connection)?; // an error rolls back
///     diesel::sql_query("UPDATE account SET balance = balance - 10").execute(connection)?;
///     Ok::<_, Box<dyn std::error::Error>>(())
/// })?; // commits while the lock is held
/// ```
pub fn check<C>(guard: &LockGuard, connection: &mut C) -> Result<(), CheckError<Error>>
where
    C: Connection,
    C::Backend: HasSqlType<BigInt> + HasSqlType<Text>,
    i64: ToSql<BigInt, C::Backend>,
    String: ToSql<Text, C::Backend>,
    for<'q> BoxedSqlQuery<'static, C::Backend, SqlQuery>: LoadQuery<'q, C, Found>,
{
    let check = sql_check::of(guard, dialect::<C::Backend>(guard.dialect()))?;
    let found = query::<C::Backend>(&check).load::<Found>(connection);
    sql_check::confirmed(guard, found.map(|found| !found.is_empty()))
}

/// Releases the lock as the last statement of the connection's transaction.
///
/// This function executes the statement of [`LockGuard::unlock_sql`] with diesel. Keep `release`
/// until the transaction has ended.
///
/// # Errors
///
/// [`CheckError::NotHeld`] if the lock is no longer held. [`CheckError::OtherStore`] if the lock is
/// in another kind of store. [`CheckError::Database`] if the statement failed. Roll back after
/// every error.
///
/// # Examples
///
/// See `examples/drivers` for a complete program.
///
/// ```ignore
/// let mut release = None;
/// connection.immediate_transaction(|connection| {
///     diesel::sql_query("UPDATE account SET balance = balance - 10").execute(connection)?;
///     let release = release.insert(guard.unlock_sql()?);
///     distlock::diesel_2::unlock(release, connection)?; // an error rolls back
///     Ok::<_, Box<dyn std::error::Error>>(())
/// })?; // the commit releases the lock
/// ```
pub fn unlock<C>(release: &SqlRelease, connection: &mut C) -> Result<(), CheckError<Error>>
where
    C: Connection,
    C::Backend: HasSqlType<BigInt> + HasSqlType<Text>,
    i64: ToSql<BigInt, C::Backend>,
    String: ToSql<Text, C::Backend>,
    for<'q> BoxedSqlQuery<'static, C::Backend, SqlQuery>: LoadQuery<'q, C, Found> + ExecuteDsl<C>,
{
    let release = release.of(dialect::<C::Backend>(Some(release.dialect())))?;
    let query = query::<C::Backend>(release.statement());
    let rows = match release.dialect() {
        SqlDialect::Postgres => query.load::<Found>(connection).map(|rows| rows.len()),
        _ => query.execute(connection),
    };
    release.confirmed(rows.map(|rows| rows as u64))
}

/// A row whose columns are not read.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Found;

impl<DB: Backend> QueryableByName<DB> for Found {
    fn build<'a>(_: &impl NamedRow<'a, DB>) -> deserialize::Result<Self> {
        Ok(Self)
    }
}

/// Returns the SQL dialect of diesel's backend, or `otherwise` if the backend is unknown. The types
/// of diesel's own backends exist only with its features, so their names decide.
fn dialect<DB>(otherwise: Option<SqlDialect>) -> SqlDialect {
    match type_name::<DB>().rsplit("::").next() {
        Some("Mysql") => SqlDialect::Mysql,
        Some("Pg") => SqlDialect::Postgres,
        Some("Sqlite") => SqlDialect::Sqlite,
        _ => otherwise.unwrap_or(SqlDialect::Postgres),
    }
}

fn query<DB>(statement: &SqlCheck) -> BoxedSqlQuery<'static, DB, SqlQuery>
where
    DB: Backend + HasSqlType<BigInt> + HasSqlType<Text>,
    i64: ToSql<BigInt, DB>,
    String: ToSql<Text, DB>,
{
    let query = sql_query(statement.text()).into_boxed::<DB>();
    statement.parameters().iter().fold(query, |query, parameter| match parameter {
        SqlParameter::Text(text) => query.bind::<Text, _>(text.clone()),
        SqlParameter::Integer(number) => query.bind::<BigInt, _>(*number),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backend_determines_the_dialect() {
        enum Mysql {}
        enum Pg {}
        enum Sqlite {}
        enum Other {}
        for of in [None, Some(SqlDialect::Mysql), Some(SqlDialect::Sqlite)] {
            assert_eq!(dialect::<Mysql>(of), SqlDialect::Mysql);
            assert_eq!(dialect::<Pg>(of), SqlDialect::Postgres);
            assert_eq!(dialect::<Sqlite>(of), SqlDialect::Sqlite);
            assert_eq!(dialect::<Other>(of), of.unwrap_or(SqlDialect::Postgres));
            // A type with parameters ends with another character.
            assert_eq!(dialect::<Vec<Pg>>(of), of.unwrap_or(SqlDialect::Postgres));
        }
    }
}
