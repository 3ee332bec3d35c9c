//! One connection to an SQL store: one request, one statement.

use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, Mutex as Lock, PoisonError},
};

use mysql_async::{Conn, OptsBuilder, prelude::Queryable};
use tokio::{net::TcpStream, sync::Mutex};
use tokio_postgres::{NoTls, SimpleQueryMessage, Statement, error::SqlState, types::ToSql};

use crate::{Result, backend::Backend};

/// Errors of a duplicate row, and of a statement that was rolled back because of a deadlock.
const MYSQL_DUPLICATE: u16 = 1062;
const MYSQL_DEADLOCK: u16 = 1213;

/// Clones share the connection. On PostgreSQL, requests are pipelined; on the others, each waits
/// for the one before it.
#[derive(Clone)]
pub(crate) enum Connection {
    Postgres(Arc<tokio_postgres::Client>, Arc<Lock<HashMap<String, Statement>>>),
    Mysql(Arc<Mutex<Conn>>),
    Sqlite(Arc<Lock<rusqlite::Connection>>),
}

/// The result of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Done {
    /// This number of rows was written.
    Rows(u64),
    /// The row exists already, and nothing was written.
    Duplicate,
    /// Two statements waited for each other, and this one was rolled back.
    Deadlock,
}

impl Connection {
    pub(crate) async fn open(backend: Backend, servers: &[String]) -> Result<Self> {
        let server = servers.first().ok_or("no server")?;
        Ok(match backend {
            Backend::Postgres => Self::Postgres(Arc::new(postgres(server).await?), Arc::default()),
            Backend::Mysql => Self::Mysql(Arc::new(Mutex::new(mysql(server).await?))),
            Backend::Sqlite => Self::Sqlite(Arc::new(Lock::new(sqlite(Path::new(server))?))),
            _ => return Err("not an SQL store".into()),
        })
    }

    /// Runs a statement without values, which is not prepared.
    pub(crate) async fn write(&self, sql: &str) -> Result<()> {
        match self {
            Self::Postgres(client, _) => client.batch_execute(sql).await?,
            Self::Mysql(connection) => connection.lock().await.query_drop(sql).await?,
            Self::Sqlite(connection) => {
                let connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
                connection.execute(sql, [])?;
            }
        }
        Ok(())
    }

    /// Runs a prepared statement with a value for each `?`.
    pub(crate) async fn execute(&self, sql: &str, values: &[&str]) -> Result<Done> {
        match self {
            Self::Postgres(client, _) => {
                let statement = self.prepared(sql).await?;
                match client.execute(&statement, &parameters(values)).await {
                    Ok(rows) => Ok(Done::Rows(rows)),
                    Err(error) if error.code() == Some(&SqlState::UNIQUE_VIOLATION) => {
                        Ok(Done::Duplicate)
                    }
                    Err(error) => Err(error.into()),
                }
            }
            Self::Mysql(connection) => {
                let mut connection = connection.lock().await;
                // The driver caches prepared statements.
                match connection.exec_drop(sql, values.to_vec()).await {
                    Ok(()) => Ok(Done::Rows(connection.affected_rows())),
                    Err(mysql_async::Error::Server(error)) if error.code == MYSQL_DUPLICATE => {
                        Ok(Done::Duplicate)
                    }
                    Err(mysql_async::Error::Server(error)) if error.code == MYSQL_DEADLOCK => {
                        Ok(Done::Deadlock)
                    }
                    Err(error) => Err(error.into()),
                }
            }
            Self::Sqlite(connection) => {
                let connection = Arc::clone(connection);
                let sql = sql.to_owned();
                let values: Vec<_> = values.iter().map(|value| (*value).to_owned()).collect();
                let write = move || {
                    let connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
                    let mut statement = connection.prepare(&sql)?;
                    statement.execute(rusqlite::params_from_iter(values))
                };
                match tokio::task::spawn_blocking(write).await? {
                    Ok(rows) => Ok(Done::Rows(rows as u64)),
                    Err(error)
                        if error.sqlite_error_code()
                            == Some(rusqlite::ErrorCode::ConstraintViolation) =>
                    {
                        Ok(Done::Duplicate)
                    }
                    Err(error) => Err(error.into()),
                }
            }
        }
    }

    /// Calls a function of the server by a prepared statement. Returns `false` only if the function
    /// returns false, 0 or nothing.
    pub(crate) async fn call(&self, sql: &str, values: &[&str]) -> Result<bool> {
        match self {
            Self::Postgres(client, _) => {
                let statement = self.prepared(sql).await?;
                let row = client.query_one(&statement, &parameters(values)).await?;
                // Otherwise its type has no values.
                Ok(row.try_get(0).unwrap_or(true))
            }
            Self::Mysql(connection) => {
                let row: Option<Option<i64>> =
                    connection.lock().await.exec_first(sql, values.to_vec()).await?;
                Ok(row.flatten() == Some(1))
            }
            Self::Sqlite(_) => Err("SQLite has no such functions".into()),
        }
    }

    /// PostgreSQL's driver caches nothing.
    async fn prepared(&self, sql: &str) -> Result<Statement> {
        let Self::Postgres(client, prepared) = self else { return Err("not PostgreSQL".into()) };
        let known = |sql| prepared.lock().unwrap_or_else(PoisonError::into_inner).get(sql).cloned();
        if let Some(statement) = known(sql) {
            return Ok(statement);
        }
        let mut pieces = sql.split('?');
        let mut text = pieces.next().unwrap_or_default().to_owned();
        for (at, piece) in pieces.enumerate() {
            text += &format!("${}{piece}", at + 1);
        }
        let statement = client.prepare(&text).await?;
        let mut prepared = prepared.lock().unwrap_or_else(PoisonError::into_inner);
        prepared.insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }

    /// The first column of each row, as text.
    pub(crate) async fn read(&self, sql: &str) -> Result<Vec<String>> {
        match self {
            Self::Postgres(client, _) => {
                let messages = client.simple_query(sql).await?;
                let texts = messages.iter().filter_map(|message| match message {
                    SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap_or_default().to_owned()),
                    _ => None,
                });
                Ok(texts.collect())
            }
            Self::Mysql(connection) => {
                let rows: Vec<Option<String>> = connection.lock().await.query(sql).await?;
                Ok(rows.into_iter().map(Option::unwrap_or_default).collect())
            }
            Self::Sqlite(connection) => {
                let connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
                let mut statement = connection.prepare(sql)?;
                let texts = statement.query_map([], |row| row.get(0))?;
                Ok(texts.collect::<rusqlite::Result<_>>()?)
            }
        }
    }

    /// The single number that the query returns.
    pub(crate) async fn number(&self, sql: &str) -> Result<f64> {
        let rows = self.read(sql).await?;
        Ok(rows.first().ok_or("no row")?.parse()?)
    }
}

fn parameters<'a>(values: &'a [&'a str]) -> Vec<&'a (dyn ToSql + Sync)> {
    values.iter().map(|value| value as &(dyn ToSql + Sync)).collect()
}

async fn postgres(server: &str) -> Result<tokio_postgres::Client> {
    let mut config = tokio_postgres::Config::new();
    config.user("postgres").password("postgres").dbname("postgres");
    let tcp = TcpStream::connect(server).await?;
    tcp.set_nodelay(true)?;
    let (client, connection) = config.connect_raw(tcp, NoTls).await?;
    // Ends with the client.
    tokio::spawn(connection);
    Ok(client)
}

async fn mysql(server: &str) -> Result<Conn> {
    let (host, port) = server.rsplit_once(':').ok_or("no port")?;
    let options = OptsBuilder::default()
        .ip_or_hostname(host)
        .tcp_port(port.parse()?)
        .user(Some("root"))
        .pass(Some("root"))
        .db_name(Some("distlock"))
        .client_found_rows(true)
        .prefer_socket(false);
    Ok(Conn::new(options).await?)
}

/// As durable as the library's: confirmed writes are in the file.
fn sqlite(path: &Path) -> Result<rusqlite::Connection> {
    let connection = rusqlite::Connection::open(path)?;
    connection.busy_timeout(std::time::Duration::from_secs(10))?;
    let _: String = connection.query_row("PRAGMA journal_mode = wal", [], |row| row.get(0))?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    Ok(connection)
}
