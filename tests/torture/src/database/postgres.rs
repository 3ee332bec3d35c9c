//! A PostgreSQL server.

use async_trait::async_trait;
use distlock_testkit::Result;
use tokio::net::TcpStream;
use tokio_postgres::{Client, Config, NoTls, SimpleQueryMessage};

use super::{
    Connection, Rows,
    server::{Server, done},
    words::Tables,
};

pub(super) static WORDS: Tables = Tables {
    sessions: "distlock.sessions",
    queues: "distlock.queues",
    entries: "distlock.entries",
    members: "distlock.members",
    alone: None,
    data: "distlock.data",
    watches: Some("distlock.watches"),
    key: "queue || '/' || to_hex(session) || '-' || ticket || \
          CASE label WHEN '' THEN '' ELSE '.' || label END",
    text: "convert_from(value, 'UTF8')",
    value: ["'", "'"],
    besides: ["", ""],
    counting: &[
        "CREATE TABLE torture_writes (\
         dir text, name text, version bigint NOT NULL, PRIMARY KEY (dir, name))",
        "CREATE FUNCTION torture_counts() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS \
         'BEGIN INSERT INTO public.torture_writes AS w VALUES (NEW.dir, NEW.name, 1) \
         ON CONFLICT (dir, name) DO UPDATE SET version = w.version + 1; RETURN NULL; END'",
        "CREATE TRIGGER torture_counts AFTER INSERT OR UPDATE ON distlock.data \
         FOR EACH ROW EXECUTE FUNCTION torture_counts()",
    ],
    begin: "BEGIN",
    locking: Some(" FOR UPDATE"),
    read_only: [
        &["ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()"],
        &["ALTER SYSTEM RESET default_transaction_read_only", "SELECT pg_reload_conf()"],
    ],
    // Without space for the next log segment, the server stops and restarts.
    room: [&[], &["SELECT pg_switch_wal()", "CHECKPOINT"]],
    event: Some(b"distlock_"),
};

pub(super) const PORT: u16 = 5432;

pub(super) const RUN: [&str; 2] = ["--stop-signal=SIGINT", "--stop-timeout=3"];

pub(super) const ARGUMENTS: [&str; 5] = [
    "-cmax_connections=500",
    "-cscram_iterations=64",
    // distlock stops waiting for a row lock before the default has passed.
    "-cdeadlock_timeout=50ms",
    "-cmin_wal_size=32MB",
    "-cmax_wal_size=48MB",
];

/// The parts of a client's URL before and after the servers.
pub(super) const AROUND: [&str; 2] = ["postgres://app:apppw@", "/distlock"];

/// Creates the database and its user.
pub(super) async fn furnish(server: &Server) -> Result<()> {
    let mut first = done(|| dial(server, "postgres")).await?;
    first.ask("CREATE ROLE app LOGIN PASSWORD 'apppw'").await?;
    first.ask("CREATE DATABASE distlock OWNER app").await?;
    Ok(())
}

/// Closes some of the clients' connections. Each client has only one, which also receives
/// notifications (LISTEN).
pub(super) async fn sever(operator: &mut dyn Connection) -> Result<()> {
    let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
               WHERE usename = 'app' AND random() < 0.5";
    operator.ask(sql).await.map(drop)
}

pub(super) async fn dial(server: &Server, database: &str) -> Result<Client> {
    let mut config = Config::new();
    config.user("postgres").password("postgres").dbname(database);
    let tcp = TcpStream::connect(server.address).await?;
    let (client, connection) = config.connect_raw(tcp, NoTls).await?;
    tokio::spawn(connection);
    // A statement whose caller has given up must not run late.
    let own = "SET statement_timeout = 900; SET default_transaction_read_only = off";
    client.batch_execute(own).await?;
    Ok(client)
}

#[async_trait]
impl Connection for Client {
    async fn ask(&mut self, sql: &str) -> Result<Rows> {
        let reply = self.simple_query(sql).await?;
        let rows = reply.iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        let text = |cell: Option<&str>| cell.unwrap_or_default().to_owned();
        Ok(rows.map(|row| (0..row.len()).map(|at| text(row.get(at))).collect()).collect())
    }
}
