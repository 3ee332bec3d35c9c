//! The counters of SQL servers: statements that requests begin with.

use crate::{Result, backend::Backend, sql::Connection};

/// distlock's requests call functions, are prepared statements, or begin by reading the server's
/// clock; all others are one statement each.
const POSTGRES: &str = "query LIKE 'SELECT (extract(%' OR query LIKE 'SELECT * FROM distlock.%' \
                        OR query LIKE 'WITH taken AS%' OR query LIKE 'WITH held AS%' \
                        OR query LIKE 'UPDATE distlock.queues SET number%' \
                        OR query LIKE 'SELECT part, a, b, c%FROM distlock.%' \
                        OR query LIKE '% bench\\_%' OR query LIKE 'SELECT pg\\_advisory\\_%'";
const POSTGRES_KEEPALIVES: &str = "query LIKE 'UPDATE distlock.sessions SET expires%'";

/// Statements of the peers and the floor are prepared: MariaDB makes no digests of these.
/// distlock's are not.
const MYSQL_PREPARED: &str = "SELECT COALESCE(SUM(count_star), 0) FROM \
    performance_schema.events_statements_summary_global_by_event_name \
    WHERE event_name = 'statement/com/Execute'";
const MYSQL_NOW: &str = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))";
const MYSQL_BEAT: &str = "(UUID_SHORT() & 72057594037927935)";
const DIGESTS: &str = "performance_schema.events_statements_summary_by_digest";

/// The user that only joins and leaves.
pub(crate) const JOINER: &str = "joiner";

/// Since the server started. NaN if the server does not count it.
pub(crate) struct Counted {
    pub(crate) requests: f64,
    /// Renewals of sessions among the requests.
    pub(crate) keepalives: f64,
    /// To clients.
    pub(crate) bytes: f64,
}

pub(crate) async fn count(backend: Backend, server: &str) -> Result<Counted> {
    if backend == Backend::Sqlite {
        return Ok(Counted { requests: f64::NAN, keepalives: f64::NAN, bytes: f64::NAN });
    }
    let connection = Connection::open(backend, &[server.to_owned()]).await?;
    match backend {
        Backend::Postgres => postgres(&connection).await,
        _ => mysql(&connection).await,
    }
}

/// The number of statements of [`JOINER`].
pub(crate) async fn of_joiner(backend: Backend, servers: &[String]) -> Result<f64> {
    let sql = match backend {
        Backend::Postgres => format!(
            "SELECT coalesce(sum(calls), 0) FROM pg_stat_statements \
             WHERE toplevel AND userid = '{JOINER}'::regrole"
        ),
        _ => format!(
            "SELECT COALESCE(SUM(count_star), 0) \
             FROM performance_schema.events_statements_summary_by_user_by_event_name \
             WHERE user = '{JOINER}' AND event_name LIKE 'statement/sql/%'"
        ),
    };
    Connection::open(backend, servers).await?.number(&sql).await
}

/// Creates what the counters need, and the counted user.
pub(crate) async fn prepare(backend: Backend, connection: &Connection) -> Result<()> {
    let statements = match backend {
        Backend::Postgres => vec![
            "CREATE EXTENSION IF NOT EXISTS pg_stat_statements".to_owned(),
            format!("DROP ROLE IF EXISTS {JOINER}"),
            format!("CREATE ROLE {JOINER} SUPERUSER LOGIN PASSWORD '{JOINER}'"),
        ],
        Backend::Mysql => vec![
            format!("CREATE USER IF NOT EXISTS {JOINER}@'%' IDENTIFIED BY '{JOINER}'"),
            format!("GRANT ALL ON distlock.* TO {JOINER}@'%'"),
        ],
        _ => Vec::new(),
    };
    for statement in statements {
        connection.write(&statement).await?;
    }
    Ok(())
}

async fn postgres(connection: &Connection) -> Result<Counted> {
    let calls = async |what: &str| {
        let sql = format!(
            "SELECT coalesce(sum(calls), 0) FROM pg_stat_statements WHERE toplevel AND ({what})"
        );
        connection.number(&sql).await
    };
    let (requests, keepalives) = (calls(POSTGRES).await?, calls(POSTGRES_KEEPALIVES).await?);
    Ok(Counted { requests, keepalives, bytes: f64::NAN })
}

/// MariaDB shows the first statement's text for all statements of a request, so digests distinguish
/// them. They are obtained by requests in a database whose session table lacks the column that a
/// renewal changes: there the second statement fails.
async fn mysql(connection: &Connection) -> Result<Counted> {
    connection.write("USE mysql").await?;
    let table = "CREATE TEMPORARY TABLE IF NOT EXISTS distlock_sessions (id BIGINT)";
    connection.write(table).await?;
    for is_there in ["", ", EXISTS (SELECT 1 FROM distlock_sessions WHERE id = 1)"] {
        let request = format!(
            "SELECT {MYSQL_NOW}, {MYSQL_BEAT}, @distlock_connection{is_there};\n\
             UPDATE distlock_sessions SET expires = {MYSQL_NOW} + ttl, \
             clock = CONCAT(@@hostname, ':', @@port), beat = {MYSQL_BEAT} WHERE id = 1"
        );
        if connection.write(&request).await.is_ok() {
            return Err("there is an unexpected column".into());
        }
    }
    let number = async |what: &str| {
        let sql = format!("SELECT COALESCE(SUM(count_star), 0) FROM {DIGESTS} WHERE {what}");
        connection.number(&sql).await
    };
    let of_digest = |failed: u8, but: &str| {
        format!(
            "schema_name = 'distlock' AND digest IN (SELECT digest FROM {DIGESTS} \
             WHERE schema_name = 'mysql' AND digest_text LIKE 'SELECT TIMESTAMPDIFF (%' \
             AND digest_text NOT LIKE '{but}' AND (sum_errors > 0) = {failed})"
        )
    };
    let ours = number(&of_digest(0, "")).await?;
    if ours == 0.0 {
        return Err(
            "MariaDB has seen none of the library's requests: do they begin differently?".into()
        );
    }
    // A single statement, or one of the four kinds of a batch or release: MariaDB shows the first
    // statement's text for each of these.
    let first = |text: &str| format!("schema_name = 'distlock' AND digest_text LIKE '{text}'");
    let [join, leave] =
        [first("UPDATE `distlock\\_alone` %"), first("DELETE FROM `distlock\\_entries` %")];
    let single = format!("({join} OR {leave}) AND digest_text NOT LIKE '%;%'");
    let batches = number(&first("START TRANSACTION ; ")).await? / 4.0;
    let requests =
        connection.number(MYSQL_PREPARED).await? + ours + number(&single).await? + batches;
    let keepalives = number(&of_digest(1, "%EXISTS%")).await?;
    let bytes = "SELECT variable_value FROM information_schema.global_status \
                 WHERE variable_name = 'BYTES_SENT'";
    let bytes = connection.number(bytes).await?;
    Ok(Counted { requests, keepalives, bytes })
}
