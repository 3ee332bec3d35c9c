//! Checks and releases locks in transactions of [sqlx] 0.9.
//!
//! This module needs Rust 1.94, the feature `sqlx-0_9`, and that of a store: `postgres`, `mysql` or
//! `sqlite`. Its functions execute the statements of [`LockGuard::sql`] and
//! [`LockGuard::unlock_sql`] on these stores.
//!
//! With the feature `postgres` or `mysql`, a client can use a sqlx pool: see
//! `Builder::postgres_pool` and `Builder::mysql_pool`.
//!
//! This crate builds two of sqlx's drivers: the one for PostgreSQL with the feature `postgres`, and
//! the one for MySQL with `mysql`. Your program chooses the others. If sqlx's feature `sqlite` and
//! this crate's feature `sqlite` are both enabled, cargo has to select a version of `rusqlite` that
//! uses the same SQLite library. If `Cargo.lock` names a newer version, run
//! `cargo update -p rusqlite -p libsqlite3-sys`.
//!
//! [sqlx]: https://docs.rs/sqlx

#[cfg(feature = "mysql")]
mod mysql_pool;
#[cfg(feature = "postgres")]
mod pool;

use sqlx_0_9::{
    AssertSqlSafe, Database, Encode, Error, Executor, IntoArguments, Transaction, Type,
    database::HasStatementCache, query::Query,
};

use crate::primitives::{
    guard::LockGuard,
    sql_check::{self, CheckError, SqlDialect, SqlParameter},
    sql_release::SqlRelease,
};

/// Checks in a transaction that the lock is held.
///
/// After a successful check, no client is granted the lock in the holder's place before the
/// transaction ends. This function runs [`LockGuard::sql`] with sqlx. Call it before any other
/// statement of the transaction, in the database that stores the lock. On SQLite, begin the
/// transaction with `pool.begin_with("BEGIN IMMEDIATE")`.
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
/// # Cancel safety
///
/// If the future is dropped, the query may or may not have run. Drop the transaction, too.
///
/// # Examples
///
/// See `examples/drivers` for a complete program.
///
/// ```ignore
/// let pool = sqlx::PgPool::connect("postgres://app:secret@127.0.0.1/app").await?;
/// let mut transaction = pool.begin().await?;
/// distlock::sqlx_0_9::check(&guard, &mut transaction).await?; // an error rolls back
/// sqlx::query("UPDATE account SET balance = balance - 10").execute(&mut *transaction).await?;
/// transaction.commit().await?; // commits while the lock is held
/// ```
pub async fn check<DB>(
    guard: &LockGuard,
    transaction: &mut Transaction<'_, DB>,
) -> Result<(), CheckError<Error>>
where
    DB: Database + HasStatementCache,
    DB::Arguments: IntoArguments<DB>,
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
    for<'t> String: Encode<'t, DB> + Type<DB>,
    for<'t> i64: Encode<'t, DB> + Type<DB>,
{
    let check = sql_check::of(guard, dialect::<DB>(guard.dialect()))?;
    let query = query::<DB>(check.text().to_owned(), check.parameters());
    let row = query.fetch_optional(&mut **transaction).await;
    sql_check::confirmed(guard, row.map(|row| row.is_some()))
}

/// Releases the lock as the last statement of a transaction.
///
/// This function executes the statement of [`LockGuard::unlock_sql`] with sqlx. Keep `release`
/// until the transaction has ended.
///
/// On MySQL this takes two statements. To save a statement, execute [`SqlRelease::text`] yourself
/// and check `rows_affected`.
///
/// # Errors
///
/// [`CheckError::NotHeld`] if the lock is no longer held. [`CheckError::OtherStore`] if the lock is
/// in another kind of store. [`CheckError::Database`] if the statement failed. Roll back after
/// every error.
///
/// # Cancel safety
///
/// If the future is dropped, the statement may or may not have run. Drop the transaction, too.
///
/// # Examples
///
/// See `examples/drivers` for a complete program.
///
/// ```ignore
/// let pool = sqlx::PgPool::connect("postgres://app:secret@127.0.0.1/app").await?;
/// let mut transaction = pool.begin().await?;
/// sqlx::query("UPDATE account SET balance = balance - 10").execute(&mut *transaction).await?;
/// let release = guard.unlock_sql()?;
/// distlock::sqlx_0_9::unlock(&release, &mut transaction).await?; // an error rolls back
/// transaction.commit().await?; // the commit releases the lock
/// release.committed();
/// ```
pub async fn unlock<DB>(
    release: &SqlRelease,
    transaction: &mut Transaction<'_, DB>,
) -> Result<(), CheckError<Error>>
where
    DB: Database + HasStatementCache,
    DB::Arguments: IntoArguments<DB>,
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
    for<'t> String: Encode<'t, DB> + Type<DB>,
    for<'t> i64: Encode<'t, DB> + Type<DB>,
{
    let release = release.of(dialect::<DB>(Some(release.dialect())))?;
    let mut text = release.text().to_owned();
    if release.dialect() == SqlDialect::Sqlite {
        text += " RETURNING 1";
    }
    let connection = &mut **transaction;
    let query = query::<DB>(text, release.parameters());
    let ran = if release.dialect() == SqlDialect::Mysql {
        let deleted = query.execute(&mut *connection).await;
        let counted = "SELECT 1 WHERE ROW_COUNT() > 0";
        match deleted {
            Ok(_) => sqlx_0_9::query(counted).fetch_optional(&mut *connection).await,
            Err(error) => Err(error),
        }
    } else {
        query.fetch_optional(&mut *connection).await
    };
    release.confirmed(ran.map(|row| u64::from(row.is_some())))
}

/// Returns the SQL dialect of the driver, or `otherwise` if the driver is unknown.
fn dialect<DB: Database>(otherwise: Option<SqlDialect>) -> SqlDialect {
    match DB::NAME {
        "MySQL" => SqlDialect::Mysql,
        "SQLite" => SqlDialect::Sqlite,
        "PostgreSQL" => SqlDialect::Postgres,
        _ => otherwise.unwrap_or(SqlDialect::Postgres),
    }
}

/// Builds the query with its parameters.
///
/// On MySQL each text is different, so it must not fill the cache of prepared statements.
fn query<DB>(text: String, parameters: &[SqlParameter]) -> Query<'static, DB, DB::Arguments>
where
    DB: Database + HasStatementCache,
    for<'t> String: Encode<'t, DB> + Type<DB>,
    for<'t> i64: Encode<'t, DB> + Type<DB>,
{
    let query = sqlx_0_9::query(AssertSqlSafe(text)).persistent(!parameters.is_empty());
    parameters.iter().fold(query, |query, parameter| match parameter {
        SqlParameter::Text(text) => query.bind(text.clone()),
        SqlParameter::Integer(number) => query.bind(*number),
    })
}
