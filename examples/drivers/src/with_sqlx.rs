//! Transfers with sqlx on PostgreSQL, MySQL and SQLite.

use distlock::{
    Client, LockGuard,
    sqlx_0_9::{check, unlock},
};
use sqlx::{
    Connection, MySqlConnection, PgConnection, SqliteConnection,
    sqlite::{SqliteConnectOptions, SqliteJournalMode},
};

use super::{BALANCES, CREATE, DROP, FILL, Result, TRANSFER, held, report};

/// Makes the transfers. The functions below differ only in the connection and in how they begin.
macro_rules! transfers {
    ($what:literal, $client:expr, $connection:expr, $begin:literal) => {{
        let (client, mut connection): (&Client, _) = ($client, $connection);
        for sql in [DROP, CREATE, FILL] {
            sqlx::query(sql).execute(&mut connection).await?;
        }
        for evicted in [false, true, false] {
            let guard: LockGuard = client.mutex($what).lock().await?;
            if evicted {
                client.evict(guard.key()).await?; // by an operator
            }
            let mut transaction = connection.begin_with($begin).await?;
            if !held(check(&guard, &mut transaction).await)? {
                transaction.rollback().await?;
                continue;
            }
            for sql in TRANSFER {
                sqlx::query(sql).execute(&mut *transaction).await?;
            }
            let release = guard.unlock_sql()?;
            if held(unlock(&release, &mut transaction).await)? {
                transaction.commit().await?;
                release.committed();
            } else {
                transaction.rollback().await?;
            }
        }
        let balances: Vec<i64> = sqlx::query_scalar(BALANCES).fetch_all(&mut connection).await?;
        sqlx::query(DROP).execute(&mut connection).await?;
        let free = client.mutex($what).try_lock().await?;
        report($what, &balances, free.is_some())?;
        drop(free);
        connection.close().await?;
        Ok(())
    }};
}

pub(crate) async fn postgres(client: &Client, url: &str) -> Result<()> {
    transfers!("sqlx on PostgreSQL", client, PgConnection::connect(url).await?, "BEGIN")
}

pub(crate) async fn mysql(client: &Client, url: &str) -> Result<()> {
    transfers!("sqlx on MySQL", client, MySqlConnection::connect(url).await?, "BEGIN")
}

pub(crate) async fn sqlite(client: &Client, file: &str) -> Result<()> {
    let options = SqliteConnectOptions::new().filename(file).journal_mode(SqliteJournalMode::Wal);
    let connection = SqliteConnection::connect_with(&options).await?;
    transfers!("sqlx on SQLite", client, connection, "BEGIN IMMEDIATE")
}
