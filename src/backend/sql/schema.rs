//! Which version of the tables a build knows.

use super::outcome::Outcome;
use crate::backend::{Result, StoreError};

/// Whether a build that knows this version can work with these tables, of which this was told.
pub(crate) fn check(tables: &str, known: i64, reply: Option<&Outcome>) -> Result<()> {
    let found = reply.and_then(|outcome| outcome.first()?.number(0));
    if found == Some(known) {
        return Ok(());
    }
    let found = found.map_or("unknown".to_owned(), |version| version.to_string());
    let reason = format!(
        "the tables {tables} are of version {found}, and this build of distlock knows version \
         {known}: use a build that knows those, or another database"
    );
    Err(StoreError::Fatal { operation: "making the tables", source: reason.into() })
}
