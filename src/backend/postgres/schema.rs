//! The tables: how they are made, and which version of them this build knows.

use super::connection::Link;
use crate::backend::{
    Result,
    sql::{outcome::Outcome, schema},
};

/// What makes the tables.
pub(crate) const DDL: &str = concat!(include_str!("schema.sql"), "\n", include_str!("tell.sql"));

/// The part of it that tables of earlier builds have in another form.
const TELL: &str = include_str!("tell.sql");

/// The version of the tables that this build knows. Another one is not touched.
const VERSION: i64 = 1;

/// Locks a guard's entry and session until the end of the transaction. The session's row comes
/// first, in the same order as where expired sessions are removed. A session that has expired by
/// the server's clock does not count, even if no other client has been granted the lock yet. The
/// clock is read in this statement, not when the transaction began.
pub(crate) const HELD: &str = "SELECT 1 FROM distlock.sessions AS s \
     JOIN distlock.entries AS e ON e.session = s.id \
     WHERE e.queue = $1 AND e.number = $2 AND s.expires > clock_timestamp() FOR KEY SHARE";

/// Makes tables of the present form, and returns what [`VERSION_AND_FORM`] does.
pub(super) async fn prepare(link: &mut Link) -> Result<Vec<Outcome>, tokio_postgres::Error> {
    if link.bare {
        return link.ask(&make()).await;
    }
    let found = link.ask(VERSION_AND_FORM).await?;
    match found.last().and_then(Outcome::first) {
        Some(row) if row.flag(1) => {}
        // The owner of the tables alone may change them. Other users work with the earlier form.
        Some(_) => drop(link.ask(&renew()).await),
        None => return link.ask(&refill()).await,
    }
    Ok(found)
}

/// One client at a time makes or changes the tables: two at once would fail at each other's names.
const ALONE: &str = "SELECT pg_advisory_xact_lock(7234316409434);\n";

/// The version of the tables, and whether they have the form of this build.
const VERSION_AND_FORM: &str = "SELECT version, EXISTS (SELECT FROM pg_index \
                                WHERE indrelid = 'distlock.schema'::regclass AND indisprimary) \
                                FROM distlock.schema";

/// Makes the tables if there are none.
fn make() -> String {
    format!(
        "SET LOCAL lock_timeout = 0;\n{ALONE}\
         DO $distlock$ BEGIN IF to_regclass('distlock.schema') IS NULL THEN\n\
         {DDL}\nEND IF; END $distlock$;\n{VERSION_AND_FORM}"
    )
}

/// Gives tables that an earlier build has made the form of this one. Where a publication has all
/// tables of the database, PostgreSQL refuses updates of one without a primary key. It waits for a
/// moment only: whatever reads the table meanwhile waits behind it.
fn renew() -> String {
    format!(
        "SET LOCAL lock_timeout = 200;\n{ALONE}\
         DO $distlock$ BEGIN IF NOT EXISTS (SELECT FROM pg_index \
         WHERE indrelid = 'distlock.schema'::regclass AND indisprimary) THEN\n\
         ALTER TABLE distlock.schema ADD PRIMARY KEY (version);\n\
         {TELL}\nEND IF; END $distlock$"
    )
}

/// Fills the table that says what the others are, which a dump without data has left empty. Which
/// server it was on is not known: numbers go on far above those that are there.
fn refill() -> String {
    format!(
        "SET LOCAL lock_timeout = 0;\n{ALONE}\
         INSERT INTO distlock.schema (version, floor, server) \
         SELECT {VERSION}, 0, 'unknown' WHERE NOT EXISTS (SELECT FROM distlock.schema) \
         AND NOT EXISTS (SELECT FROM distlock.sessions);\n{VERSION_AND_FORM}"
    )
}

/// Whether this build can work with the tables.
pub(super) fn check(told: Option<&Outcome>) -> Result<()> {
    schema::check("in the schema `distlock`", VERSION, told)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_versions_are_refused_by_name() {
        let told = |version: &str| Outcome::of_one(&[version]);
        check(Some(&told("1"))).unwrap();
        for (outcome, found) in [(Some(told("2")), "version 2"), (None, "version unknown")] {
            let error = check(outcome.as_ref()).unwrap_err();
            assert!(error.reason().contains(found), "{}", error.reason());
        }
    }

    /// The dollars that quote the whole are not those that quote a part of it.
    #[test]
    fn the_tables_can_be_made_in_one_statement() {
        assert!(!DDL.contains("$distlock$"));
        assert!(DDL.contains(&format!("VALUES ({VERSION}, 0)")));
    }
}
