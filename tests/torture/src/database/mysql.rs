//! A MariaDB server.

use async_trait::async_trait;
use distlock_testkit::Result;
use mysql_async::{Conn, OptsBuilder, Row, Value, prelude::Queryable};

use super::{
    Connection, Rows,
    server::{Server, done},
    words::Tables,
};

pub(super) static WORDS: Tables = Tables {
    sessions: "distlock_sessions",
    queues: "distlock_queues",
    entries: "distlock_entries",
    members: "(SELECT queue, number, session, ticket, label FROM distlock_alone \
              WHERE session IS NOT NULL UNION ALL \
              SELECT queue, number, session, ticket, label FROM distlock_entries) AS members",
    alone: Some("distlock_alone"),
    data: "distlock_data",
    watches: None,
    key: "CONCAT(queue, '/', LOWER(HEX(session)), '-', ticket, \
          IF(label = '', '', CONCAT('.', label)))",
    text: "value",
    value: ["'", "'"],
    besides: ["", ""],
    counting: &[
        "CREATE TABLE torture_writes (dir VARBINARY(512), name VARBINARY(512), \
         version BIGINT NOT NULL, PRIMARY KEY (dir, name)) ENGINE = InnoDB",
        // distlock replaces rows.
        "CREATE TRIGGER torture_counts AFTER INSERT ON distlock_data FOR EACH ROW \
         INSERT INTO torture_writes VALUES (NEW.dir, NEW.name, 1) \
         ON DUPLICATE KEY UPDATE version = version + 1",
    ],
    begin: "START TRANSACTION",
    locking: Some(" FOR UPDATE"),
    read_only: [&["SET GLOBAL read_only = 1"], &["SET GLOBAL read_only = 0"]],
    room: [&[], &[]],
    event: None,
};

pub(super) const PORT: u16 = 3306;

pub(super) const RUN: [&str; 2] = ["--stop-timeout=3", "--env=MYSQL_DATABASE=distlock"];

pub(super) const ARGUMENTS: [&str; 6] = [
    "--innodb-flush-log-at-trx-commit=1",
    "--innodb-lock-wait-timeout=1",
    "--innodb-log-file-size=8M",
    "--innodb-buffer-pool-size=32M",
    "--max-connections=500",
    "--max-connect-errors=1000000",
];

/// The parts of a client's URL before and after the servers.
pub(super) const AROUND: [&str; 2] = ["mysql://app:apppw@", "/distlock"];

/// Creates the user.
pub(super) async fn furnish(server: &Server) -> Result<()> {
    let mut first = done(|| dial(server, &[])).await?;
    first.ask("CREATE USER app@'%' IDENTIFIED BY 'apppw'").await?;
    first.ask("GRANT ALL ON distlock.* TO app@'%'").await?;
    Ok(())
}

/// Closes some of the clients' connections.
pub(super) async fn sever(operator: &mut dyn Connection) -> Result<()> {
    let sql = "SELECT id FROM information_schema.processlist WHERE user = 'app'";
    for row in operator.ask(sql).await? {
        if fastrand::bool() {
            // The connection may have ended.
            let _ = operator.ask(&format!("KILL {}", row.concat())).await;
        }
    }
    Ok(())
}

/// A statement whose caller has given up must not run late. An operator's reads take no locks.
const OWN: [&str; 2] =
    ["SET max_statement_time = 0.9", "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"];

/// Opens an operator's connection. `more` are further initial statements.
pub(super) async fn dial(server: &Server, more: &[&str]) -> Result<Conn> {
    let options = OptsBuilder::default()
        .ip_or_hostname(server.address.ip().to_string())
        .tcp_port(server.address.port())
        .user(Some("root"))
        .pass(Some("root"))
        .db_name(Some("distlock"))
        .prefer_socket(false)
        .init([&OWN, more].concat());
    Ok(Conn::new(options).await?)
}

#[async_trait]
impl Connection for Conn {
    async fn ask(&mut self, sql: &str) -> Result<Rows> {
        let rows: Vec<Row> = self.query(sql).await?;
        let text = |value| match value {
            Value::Bytes(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            _ => String::new(),
        };
        Ok(rows.into_iter().map(|row| row.unwrap().into_iter().map(text).collect()).collect())
    }
}
