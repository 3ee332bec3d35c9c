//! A user's connection to one of the databases, which returns the replies to statements.

use distlock::{SqlCheck, SqlParameter};

/// The reply to a statement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reply {
    /// The first column of its rows.
    pub(crate) rows: Vec<String>,
    /// How many rows it has changed.
    pub(crate) changed: u64,
}

/// The database's code of an error.
pub(crate) type Code = String;

pub(crate) enum Sql {
    #[cfg(feature = "mysql")]
    Mysql(mysql_async::Conn),
    #[cfg(feature = "postgres")]
    Postgres(tokio_postgres::Client),
    Sqlite(rusqlite::Connection),
}

impl Sql {
    pub(crate) async fn connect(url: &str) -> Self {
        match url.split_once("://").expect("a scheme") {
            #[cfg(feature = "mysql")]
            ("mysql", _) => Self::Mysql(super::mysql::dial(url, None).await),
            #[cfg(feature = "postgres")]
            ("postgres", _) => Self::Postgres(super::postgres::dial(url, None).await),
            ("sqlite", file) => {
                let connection = rusqlite::Connection::open(file).expect("the file opens");
                connection.busy_timeout(std::time::Duration::ZERO).expect("the timeout is set");
                Self::Sqlite(connection)
            }
            _ => panic!("no such database: {url}"),
        }
    }

    /// Runs a statement that must not fail.
    pub(crate) async fn ask(&mut self, sql: &str) -> Reply {
        self.run(sql).await.unwrap_or_else(|code| panic!("{sql}: {code}"))
    }

    pub(crate) async fn run(&mut self, sql: &str) -> Result<Reply, Code> {
        match self {
            #[cfg(feature = "mysql")]
            Self::Mysql(connection) => on_mysql(connection, sql).await,
            #[cfg(feature = "postgres")]
            Self::Postgres(client) => on_postgres(client, sql).await,
            Self::Sqlite(connection) => tokio::task::block_in_place(|| on_sqlite(connection, sql)),
        }
    }
}

#[cfg(feature = "mysql")]
async fn on_mysql(connection: &mut mysql_async::Conn, sql: &str) -> Result<Reply, Code> {
    use mysql_async::{Error, Row, prelude::Queryable};
    let run = async {
        let mut answer = connection.query_iter(sql).await?;
        let rows: Vec<Row> = answer.collect().await?;
        let changed = answer.affected_rows();
        answer.drop_result().await?;
        Ok((rows, changed))
    };
    let (rows, changed) = run.await.map_err(|error: Error| match error {
        Error::Server(error) => error.code.to_string(),
        _ => "closed".to_owned(),
    })?;
    let rows = rows.into_iter().map(|mut row| row.take(0).expect("a text")).collect();
    Ok(Reply { rows, changed })
}

#[cfg(feature = "postgres")]
async fn on_postgres(client: &tokio_postgres::Client, sql: &str) -> Result<Reply, Code> {
    use tokio_postgres::SimpleQueryMessage::{CommandComplete, Row};
    let answer = client.simple_query(sql).await.map_err(|error| {
        error.code().map_or_else(|| "closed".to_owned(), |code| code.code().to_owned())
    })?;
    let mut reply = Reply::default();
    for message in answer {
        match message {
            Row(row) => reply.rows.push(row.get(0).unwrap_or_default().to_owned()),
            CommandComplete(changed) => reply.changed = changed,
            _ => {}
        }
    }
    Ok(reply)
}

fn on_sqlite(connection: &rusqlite::Connection, sql: &str) -> Result<Reply, Code> {
    use rusqlite::{Error, ErrorCode, types::Value};
    let run = || {
        let mut statement = connection.prepare(sql)?;
        if statement.column_count() == 0 {
            let changed = statement.execute([])? as u64;
            return Ok(Reply { rows: Vec::new(), changed });
        }
        let rows = statement.query_map([], |row| row.get(0))?;
        let text = |value: rusqlite::Result<Value>| {
            Ok(match value? {
                Value::Text(text) => text,
                Value::Integer(number) => number.to_string(),
                other => panic!("{other:?}"),
            })
        };
        Ok(Reply { rows: rows.map(text).collect::<Result<_, Error>>()?, changed: 0 })
    };
    run().map_err(|error: Error| match error.sqlite_error() {
        Some(error) if error.extended_code == 517 => "SQLITE_BUSY_SNAPSHOT".to_owned(),
        Some(error) if error.code == ErrorCode::DatabaseBusy => "SQLITE_BUSY".to_owned(),
        _ => error.to_string(),
    })
}

/// Returns a check as one text, for connections without parameters.
pub(crate) fn written(check: &SqlCheck) -> String {
    filled(check.text(), check.parameters())
}

/// Returns a text with its parameters filled in.
pub(crate) fn filled(text: &str, parameters: &[SqlParameter]) -> String {
    let mut text = text.to_owned();
    for (at, parameter) in parameters.iter().enumerate().rev() {
        let value = match parameter {
            SqlParameter::Text(text) => format!("'{}'", text.replace('\'', "''")),
            SqlParameter::Integer(number) => number.to_string(),
            other => panic!("{other:?}"),
        };
        for mark in ["$", "?"] {
            text = text.replace(&format!("{mark}{}", at + 1), &value);
        }
    }
    text
}
