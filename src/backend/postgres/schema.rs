//! The creation of the tables, and the version of them that this build knows.

use tokio_postgres::error::SqlState;

use super::connection::Link;
use crate::backend::{
    Result,
    sql::{outcome::Outcome, schema},
};

/// The tables of version 2 and their functions.
macro_rules! version_2 {
    () => {
        concat!(
            include_str!("tables.sql"),
            include_str!("queue.sql"),
            include_str!("leave.sql"),
            include_str!("batch.sql"),
            include_str!("sessions.sql"),
            include_str!("unlock.sql"),
            include_str!("pooled.sql"),
            include_str!("notify.sql"),
        )
    };
}

/// Creates the tables and functions, or migrates those of version 1. It is one statement, which is
/// applied as a whole or not at all.
pub(crate) const DDL: &str = concat!(
    "DO $distlock$ BEGIN\nIF to_regclass('distlock.schema') IS NULL THEN\n",
    include_str!("schema.sql"),
    version_2!(),
    "ELSIF EXISTS (SELECT FROM distlock.schema WHERE version = 1) THEN\n",
    include_str!("migration.sql"),
    version_2!(),
    include_str!("migrated.sql"),
    "END IF;\nEND $distlock$;\n"
);

/// The version of the tables that this build knows. It changes no other version, except to migrate
/// [`FORMER`].
const VERSION: i64 = 2;

/// The version that this build migrates.
const FORMER: i64 = 1;

/// Locks a guard's entry and session until the end of the transaction. It does nothing if the
/// session has expired by the server's clock as that function reads it: see `distlock.held`.
pub(crate) const HELD: &str = "SELECT 1 FROM distlock.held($1, $2)";

/// Deletes a guard's entry in a user's transaction: see `distlock.unlock`.
pub(crate) const UNLOCK: &str = "SELECT 1 FROM distlock.unlock($1, $2)";

/// Creates the tables if there are none, and returns their version.
pub(super) async fn prepare(link: &mut Link) -> Result<Vec<Outcome>, tokio_postgres::Error> {
    if link.bare {
        return link.ask(&make()).await;
    }
    let found = link.ask(WHICH).await?;
    match found.last().and_then(Outcome::first).map(|row| row.number(0)) {
        None => link.ask(&refill()).await,
        Some(Some(FORMER)) => match link.ask(&make()).await {
            // Only their owner may change them. The error then contains their version.
            Err(error) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => Ok(found),
            made => made,
        },
        Some(_) => Ok(found),
    }
}

/// Lets one client at a time create or change the tables, because two would fail on each other's
/// names. The wait is limited, because all readers of a table wait behind this statement. Pending
/// requests on tables of a former version take only a moment, but a user's transaction may take
/// longer.
const ALONE: &str = "SET LOCAL lock_timeout = 0;\n\
                     SELECT pg_advisory_xact_lock(7234316409434);\n\
                     SET LOCAL lock_timeout = 1000;\n";

/// Reads the version of the tables.
const WHICH: &str = "SELECT version FROM distlock.schema";

fn make() -> String {
    format!("{ALONE}{DDL}{WHICH}")
}

/// Fills the table that describes the others, which a dump without data has left empty. Its server
/// is unknown, so numbers continue far above the existing ones.
fn refill() -> String {
    format!(
        "{ALONE}INSERT INTO distlock.schema (version, server) \
         SELECT {VERSION}, 'unknown' WHERE NOT EXISTS (SELECT FROM distlock.schema) \
         AND NOT EXISTS (SELECT FROM distlock.sessions);\n{WHICH}"
    )
}

/// Fails unless this build can use the tables.
pub(super) fn check(reply: Option<&Outcome>) -> Result<()> {
    schema::check("in the schema `distlock`", VERSION, reply)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_versions_are_refused_by_name() {
        let reply = |version: &str| Outcome::of_one(&[version]);
        check(Some(&reply("2"))).unwrap();
        for (outcome, found) in [
            (Some(reply("1")), "version 1"),
            (Some(reply("3")), "version 3"),
            (None, "version unknown"),
        ] {
            let error = check(outcome.as_ref()).unwrap_err();
            assert!(error.reason().contains(found), "{}", error.reason());
        }
    }

    /// The quoted text contains no `$distlock$` of its own.
    #[test]
    fn the_tables_can_be_made_in_one_statement() {
        assert_eq!(DDL.matches("$distlock$").count(), 2);
        assert!(DDL.contains(&format!("(version) VALUES ({VERSION})")));
    }
}
