//! The version of the tables.

use super::outcome::Outcome;
use crate::backend::{Result, StoreError};

/// Fails unless the reply names the version that this build knows.
pub(crate) fn check(tables: &str, known: i64, reply: Option<&Outcome>) -> Result<()> {
    let found = reply.and_then(|outcome| outcome.first()?.number(0));
    if found == Some(known) {
        return Ok(());
    }
    let found = found.map_or("unknown".to_owned(), |version| version.to_string());
    let reason = format!(
        "the tables {tables} have version {found}, but this build of distlock supports version \
         {known}: use a build that supports the tables, or another database"
    );
    Err(StoreError::Fatal { operation: "checking the tables", source: reason.into() })
}
