//! [`LockGuard::sql`] and [`LockGuard::unlock_sql`] in transactions of [sqlx] 0.9, on PostgreSQL,
//! MySQL and SQLite. Feature `sqlx-0_9`, which needs Rust 1.94.
//!
//! With the feature `postgres` or `mysql`, a client can use a pool of sqlx: see
//! `Builder::postgres_pool` and `Builder::mysql_pool`.
//!
//! This crate builds two of sqlx's drivers, that of PostgreSQL with the feature `postgres` and that
//! of MySQL with `mysql`. The others that you choose are used. With sqlx's `sqlite` and the feature
//! `sqlite`, cargo chooses a version of `rusqlite` that uses the same SQLite.
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

/// Asks a transaction whether the lock is held, and keeps it held until that transaction ends:
/// [`LockGuard::sql`] with sqlx. Ask before anything else, and in the database that the lock is in.
/// On SQLite begin by `pool.begin_with("BEGIN IMMEDIATE")`.
///
/// # Errors
///
/// [`CheckError::NotHeld`] if the lock is not held any more, [`CheckError::OtherStore`] if it is in
/// a store of another kind, [`CheckError::Database`] if there was no answer. Roll back in any case:
/// after an error the transaction may write without the lock.
///
/// # Cancel safety
///
/// On PostgreSQL, do not call it inside a savepoint, such as a nested transaction: rolling the
/// savepoint back releases the rows that keep the lock held.
///
/// Dropped, it has asked or not: drop the transaction, too.
///
/// # Examples
///
/// `examples/drivers` has a whole program.
///
/// ```ignore
/// let pool = sqlx::PgPool::connect("postgres://app:secret@127.0.0.1/app").await?;
/// let mut transaction = pool.begin().await?;
/// distlock::sqlx_0_9::check(&guard, &mut transaction).await?; // or it is rolled back
/// sqlx::query("UPDATE account SET balance = balance - 10").execute(&mut *transaction).await?;
/// transaction.commit().await?; // while the lock is held
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

/// Releases the lock as the last statement of a transaction: [`LockGuard::unlock_sql`] with sqlx.
/// Keep the value until the transaction has ended.
///
/// On MySQL it takes two requests, as sqlx reports the number of affected rows in a different way
/// for each driver. To save one, execute [`SqlRelease::text`] yourself and look at `rows_affected`.
///
/// # Errors
///
/// [`CheckError::NotHeld`] if the lock is not held any more, [`CheckError::OtherStore`] if it is in
/// a store of another kind, [`CheckError::Database`] if there was no answer. Roll back in any case.
///
/// # Cancel safety
///
/// Dropped, the statement has run or not: drop the transaction, too.
///
/// # Examples
///
/// `examples/drivers` has a whole program.
///
/// ```ignore
/// let pool = sqlx::PgPool::connect("postgres://app:secret@127.0.0.1/app").await?;
/// let mut transaction = pool.begin().await?;
/// sqlx::query("UPDATE account SET balance = balance - 10").execute(&mut *transaction).await?;
/// let release = guard.unlock_sql()?;
/// distlock::sqlx_0_9::unlock(&release, &mut transaction).await?; // or it is rolled back
/// transaction.commit().await?; // with it the lock is released
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

/// Which SQL the driver's is; if that is not known, what is asked of it.
fn dialect<DB: Database>(otherwise: Option<SqlDialect>) -> SqlDialect {
    match DB::NAME {
        "MySQL" => SqlDialect::Mysql,
        "SQLite" => SqlDialect::Sqlite,
        "PostgreSQL" => SqlDialect::Postgres,
        _ => otherwise.unwrap_or(SqlDialect::Postgres),
    }
}

/// On MySQL each text is another one, which is not to fill the cache of prepared statements.
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
