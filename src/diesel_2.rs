//! [`LockGuard::sql`] and [`LockGuard::unlock_sql`] in transactions of [diesel] 2, on PostgreSQL,
//! MySQL and SQLite. Feature `diesel-2`.
//!
//! This crate builds none of diesel's backends: those that you choose are used. With diesel's
//! `sqlite` beside the feature `sqlite`, cargo chooses a version of `rusqlite` that uses the same
//! SQLite.
//!
//! [diesel]: https://docs.rs/diesel

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

/// Asks the transaction that the connection is in whether the lock is held, and keeps it held until
/// that transaction ends: [`LockGuard::sql`] with diesel. Ask before anything else, and in the
/// database that the lock is in. On SQLite begin by `immediate_transaction`.
///
/// # Errors
///
/// [`CheckError::NotHeld`] if the lock is not held any more, [`CheckError::OtherStore`] if it is in
/// a store that is no SQL database, [`CheckError::Database`] if there was no answer, or if it is in
/// a database of another kind. Roll back in any case: after an error the transaction may write
/// without the lock.
///
/// On PostgreSQL, do not call it inside a savepoint, such as a nested transaction: rolling the
/// savepoint back releases the rows that keep the lock held.
///
/// # Examples
///
/// `examples/drivers` has a whole program.
///
/// ```ignore
/// connection.immediate_transaction(|connection| {
///     distlock::diesel_2::check(&guard, connection)?; // or it is rolled back
///     diesel::sql_query("UPDATE account SET balance = balance - 10").execute(connection)?;
///     Ok::<_, Box<dyn std::error::Error>>(())
/// })?; // while the lock is held
/// ```
pub fn check<C>(guard: &LockGuard, connection: &mut C) -> Result<(), CheckError<Error>>
where
    C: Connection,
    C::Backend: HasSqlType<BigInt> + HasSqlType<Text>,
    i64: ToSql<BigInt, C::Backend>,
    String: ToSql<Text, C::Backend>,
    for<'q> BoxedSqlQuery<'static, C::Backend, SqlQuery>: LoadQuery<'q, C, Found>,
{
    let asked = guard.dialect().unwrap_or(SqlDialect::Postgres);
    let check = sql_check::of(guard, asked)?;
    let found = query::<C::Backend>(&check).load::<Found>(connection);
    sql_check::confirmed(guard, found.map(|found| !found.is_empty()))
}

/// Releases the lock as the last statement of the transaction that the connection is in:
/// [`LockGuard::unlock_sql`] with diesel. Keep the value until the transaction has ended.
///
/// # Errors
///
/// [`CheckError::NotHeld`] if the lock is not held any more, [`CheckError::Database`] if there was
/// no answer, or if it is in a database of another kind. Roll back in any case.
///
/// # Examples
///
/// `examples/drivers` has a whole program.
///
/// ```ignore
/// let mut release = None;
/// connection.immediate_transaction(|connection| {
///     diesel::sql_query("UPDATE account SET balance = balance - 10").execute(connection)?;
///     let release = release.insert(guard.unlock_sql()?);
///     distlock::diesel_2::unlock(release, connection)?; // or it is rolled back
///     Ok::<_, Box<dyn std::error::Error>>(())
/// })?; // with it the lock is released
/// ```
pub fn unlock<C>(release: &SqlRelease, connection: &mut C) -> Result<(), CheckError<Error>>
where
    C: Connection,
    C::Backend: HasSqlType<BigInt> + HasSqlType<Text>,
    i64: ToSql<BigInt, C::Backend>,
    String: ToSql<Text, C::Backend>,
    for<'q> BoxedSqlQuery<'static, C::Backend, SqlQuery>: LoadQuery<'q, C, Found> + ExecuteDsl<C>,
{
    let query = query::<C::Backend>(release.statement());
    let rows = match release.dialect() {
        SqlDialect::Postgres => query.load::<Found>(connection).map(|rows| rows.len()),
        _ => query.execute(connection),
    };
    release.confirmed(rows.map(|rows| rows as u64))
}

/// A row, whatever is in it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Found;

impl<DB: Backend> QueryableByName<DB> for Found {
    fn build<'a>(_: &impl NamedRow<'a, DB>) -> deserialize::Result<Self> {
        Ok(Self)
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
