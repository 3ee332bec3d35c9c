//! The two accounts, and the transaction with each driver.

use std::{error::Error, time::Duration};

use distlock::{CheckError, LockGuard};
use rusqlite::TransactionBehavior::Immediate;

use super::Result;

const CREATE: &str =
    "CREATE TABLE distlock_example_accounts (id INT PRIMARY KEY, balance BIGINT NOT NULL)";
const FILL: &str = "INSERT INTO distlock_example_accounts VALUES (1, 1000), (2, 1000)";
pub(crate) const DROP: &str = "DROP TABLE IF EXISTS distlock_example_accounts";
const READ: &str = "SELECT balance FROM distlock_example_accounts ORDER BY id";

/// The accounts, with the driver of their database.
pub(crate) enum Bank {
    Sqlite(rusqlite::Connection),
    #[cfg(feature = "tokio-postgres-0_7")]
    Postgres(tokio_postgres::Client),
    #[cfg(feature = "mysql_async-0_37")]
    Mysql(mysql_async::Conn),
}

/// Returns the statements of the transaction.
fn writes([alice, bob]: [i64; 2]) -> [String; 2] {
    [(1, alice), (2, bob)].map(|(id, balance)| {
        format!("UPDATE distlock_example_accounts SET balance = {balance} WHERE id = {id}")
    })
}

/// Returns whether the lock is held, or an error if that is unknown.
fn held<E: Error + Send + Sync + 'static>(
    checked: std::result::Result<(), CheckError<E>>,
) -> Result<bool> {
    match checked {
        Ok(()) => Ok(true),
        Err(CheckError::NotHeld { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

impl Bank {
    pub(crate) async fn open(url: &str) -> Result<Self> {
        if let Some(file) = url.strip_prefix("sqlite://") {
            let file = rusqlite::Connection::open(file)?;
            file.busy_timeout(Duration::from_secs(10))?;
            return Ok(Self::Sqlite(file));
        }
        #[cfg(feature = "tokio-postgres-0_7")]
        if url.starts_with("postgres://") {
            let config: tokio_postgres::Config = url.parse()?;
            let [tokio_postgres::config::Host::Tcp(host)] = config.get_hosts() else {
                return Err("one host".into());
            };
            let port = config.get_ports().first().copied().unwrap_or(5432);
            let stream = tokio::net::TcpStream::connect((&**host, port)).await?;
            let (client, connection) = config.connect_raw(stream, tokio_postgres::NoTls).await?;
            tokio::spawn(connection);
            return Ok(Self::Postgres(client));
        }
        #[cfg(feature = "mysql_async-0_37")]
        if url.starts_with("mysql://") {
            return Ok(Self::Mysql(mysql_async::Conn::from_url(url).await?));
        }
        Err(format!("no such database, or its feature is not on: {url}").into())
    }

    /// Creates the accounts again.
    pub(crate) async fn fill(&mut self) -> Result<()> {
        for sql in [DROP, CREATE, FILL] {
            self.run(sql).await?;
        }
        Ok(())
    }

    pub(crate) async fn run(&mut self, sql: &str) -> Result<()> {
        match self {
            Self::Sqlite(file) => file.execute_batch(sql)?,
            #[cfg(feature = "tokio-postgres-0_7")]
            Self::Postgres(client) => client.batch_execute(sql).await?,
            #[cfg(feature = "mysql_async-0_37")]
            Self::Mysql(connection) => {
                mysql_async::prelude::Queryable::query_drop(connection, sql).await?;
            }
        }
        Ok(())
    }

    pub(crate) async fn balances(&mut self) -> Result<[i64; 2]> {
        let rows: Vec<i64> = match self {
            Self::Sqlite(file) => file
                .prepare(READ)?
                .query_map([], |row| row.get(0))?
                .collect::<rusqlite::Result<_>>()?,
            #[cfg(feature = "tokio-postgres-0_7")]
            Self::Postgres(client) => {
                client.query(READ, &[]).await?.iter().map(|row| row.get(0)).collect()
            }
            #[cfg(feature = "mysql_async-0_37")]
            Self::Mysql(connection) => {
                mysql_async::prelude::Queryable::query(connection, READ).await?
            }
        };
        Ok(rows.try_into().map_err(|_| "two accounts")?)
    }

    /// Writes in one transaction.
    ///
    /// With a guard, the transaction commits only while its lock is held.
    pub(crate) async fn write(
        &mut self,
        balances: [i64; 2],
        guard: Option<&LockGuard>,
    ) -> Result<bool> {
        match self {
            Self::Sqlite(file) => {
                let transaction = file.transaction_with_behavior(Immediate)?;
                if let Some(guard) = guard
                    && !held(distlock::sqlite::check(guard, &transaction))?
                {
                    return Ok(false); // dropping the transaction rolls it back
                }
                transaction.execute_batch(&writes(balances).join(";"))?;
                transaction.commit()?;
            }
            #[cfg(feature = "tokio-postgres-0_7")]
            Self::Postgres(client) => {
                let transaction = client.transaction().await?;
                if let Some(guard) = guard
                    && !held(distlock::postgres::check(guard, &transaction).await)?
                {
                    return Ok(false);
                }
                transaction.batch_execute(&writes(balances).join(";")).await?;
                transaction.commit().await?;
            }
            #[cfg(feature = "mysql_async-0_37")]
            Self::Mysql(connection) => {
                use mysql_async::{TxOpts, prelude::Queryable};
                let mut transaction = connection.start_transaction(TxOpts::default()).await?;
                if let Some(guard) = guard
                    && !held(distlock::mysql::check(guard, &mut transaction).await)?
                {
                    transaction.rollback().await?;
                    return Ok(false);
                }
                for sql in writes(balances) {
                    transaction.query_drop(sql).await?;
                }
                transaction.commit().await?;
            }
        }
        Ok(true)
    }
}
