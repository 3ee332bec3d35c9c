//! A table in PostgreSQL or MySQL, on the server that stores the lock. A second table has one row,
//! which stores the highest token seen so far. One statement checks that token and writes both
//! tables.

use std::error::Error;

#[cfg(feature = "mysql")]
use mysql_async::prelude::Queryable;

use super::table::Stale;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

pub(crate) struct Database {
    server: Server,
    table: String,
}

/// One connection, without TLS.
enum Server {
    #[cfg(feature = "postgres")]
    Postgres(tokio_postgres::Client),
    #[cfg(feature = "mysql")]
    Mysql(mysql_async::Conn),
}

impl Database {
    pub(crate) async fn open(url: &str, table: &str) -> Result<Self> {
        let server = if url.starts_with("mysql://") {
            #[cfg(not(feature = "mysql"))]
            return Err("build with the feature mysql".into());
            #[cfg(feature = "mysql")]
            Server::Mysql(mysql_async::Conn::new(mysql_async::Opts::from_url(url)?).await?)
        } else {
            #[cfg(not(feature = "postgres"))]
            return Err("build with the feature postgres".into());
            #[cfg(feature = "postgres")]
            Server::Postgres(postgres(url).await?)
        };
        Ok(Self { server, table: table.to_owned() })
    }

    pub(crate) async fn create(&mut self, rows: usize) -> Result<()> {
        let table = self.table.clone();
        let all: Vec<_> = (0..rows).map(|row| format!("({row}, 0)")).collect();
        for sql in [
            format!("CREATE TABLE {table} (id int PRIMARY KEY, processed int NOT NULL)"),
            format!("INSERT INTO {table} (id, processed) VALUES {}", all.join(", ")),
            format!("CREATE TABLE {table}_seen (id int PRIMARY KEY, token bigint NOT NULL)"),
            format!("INSERT INTO {table}_seen (id, token) VALUES (0, 0)"),
        ] {
            self.write(&sql).await?;
        }
        Ok(())
    }

    pub(crate) async fn remove(&mut self) -> Result<()> {
        let table = self.table.clone();
        self.write(&format!("DROP TABLE {table}, {table}_seen")).await.map(drop)
    }

    pub(crate) async fn unprocessed(&mut self, limit: usize) -> Result<Vec<usize>> {
        let table = &self.table;
        let sql = format!("SELECT id FROM {table} WHERE processed = 0 ORDER BY id LIMIT {limit}");
        let rows = self.read(&sql).await?;
        Ok(rows.into_iter().filter_map(|id| usize::try_from(id).ok()).collect())
    }

    /// Marks a row in one statement, during which no other client can write the newest token.
    pub(crate) async fn mark(
        &mut self,
        row: usize,
        token: Option<u64>,
    ) -> Result<std::result::Result<(), Stale>> {
        let table = self.table.clone();
        let sql = match (token, &self.server) {
            (None, _) => {
                format!("UPDATE {table} SET processed = processed + 1 WHERE id = {row}")
            }
            #[cfg(feature = "postgres")]
            (Some(token), Server::Postgres(_)) => format!(
                "WITH seen AS (UPDATE {table}_seen SET token = {token} \
                 WHERE token <= {token} RETURNING token) \
                 UPDATE {table} SET processed = processed + 1 \
                 WHERE id = {row} AND EXISTS (SELECT FROM seen)"
            ),
            #[cfg(feature = "mysql")]
            (Some(token), Server::Mysql(_)) => format!(
                "UPDATE {table}_seen AS seen STRAIGHT_JOIN {table} AS all_rows \
                 SET seen.token = {token}, all_rows.processed = all_rows.processed + 1 \
                 WHERE seen.token <= {token} AND all_rows.id = {row}"
            ),
        };
        if self.write(&sql).await? > 0 {
            return Ok(Ok(()));
        }
        let seen = self.read(&format!("SELECT token FROM {table}_seen")).await?;
        let newest = seen.first().and_then(|token| u64::try_from(*token).ok());
        Ok(Err(Stale { newest: newest.ok_or("the table has no token")? }))
    }

    pub(crate) async fn count(&mut self) -> Result<(usize, usize)> {
        let table = self.table.clone();
        let mut number = async |condition: &str| -> Result<usize> {
            let sql = format!("SELECT COUNT(*) FROM {table} WHERE {condition}");
            let rows = self.read(&sql).await?;
            Ok(usize::try_from(*rows.first().ok_or("no count")?)?)
        };
        Ok((number("1 = 1").await?, number("processed > 1").await?))
    }

    /// Returns the number of rows that were written.
    async fn write(&mut self, sql: &str) -> Result<u64> {
        match &mut self.server {
            #[cfg(feature = "postgres")]
            Server::Postgres(client) => Ok(client.execute(sql, &[]).await?),
            #[cfg(feature = "mysql")]
            Server::Mysql(connection) => {
                connection.query_drop(sql).await?;
                Ok(connection.affected_rows())
            }
        }
    }

    /// Returns the first column of each row.
    async fn read(&mut self, sql: &str) -> Result<Vec<i64>> {
        match &mut self.server {
            #[cfg(feature = "postgres")]
            Server::Postgres(client) => {
                let messages = client.simple_query(sql).await?;
                let rows = messages.iter().filter_map(|message| match message {
                    tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0),
                    _ => None,
                });
                Ok(rows.map(str::parse).collect::<std::result::Result<_, _>>()?)
            }
            #[cfg(feature = "mysql")]
            Server::Mysql(connection) => Ok(connection.query(sql).await?),
        }
    }
}

#[cfg(feature = "postgres")]
async fn postgres(url: &str) -> Result<tokio_postgres::Client> {
    let config: tokio_postgres::Config = url.parse()?;
    let host = match config.get_hosts().first() {
        Some(tokio_postgres::config::Host::Tcp(host)) => host.clone(),
        _ => return Err("the URL has no host".into()),
    };
    let port = config.get_ports().first().copied().unwrap_or(5432);
    let stream = tokio::net::TcpStream::connect((host, port)).await?;
    let (client, connection) = config.connect_raw(stream, tokio_postgres::NoTls).await?;
    // The task ends with the client.
    tokio::spawn(connection);
    Ok(client)
}
