//! The tables that a client finds: it creates missing ones, and migrates those of version 1.

use super::{
    connection::Link,
    message::Message,
    opening,
    schema::{self, COLUMNS, FORMER, found},
};
use crate::backend::{Result, StoreError, sql::outcome::Outcome};

/// Ensures that there are tables that this build can use.
pub(super) async fn prepare(link: &mut Link) -> Result<()> {
    let known = match link.bare {
        true => None,
        false => read_version(link).await?,
    };
    // Without a row the tables are being created, or were left incomplete.
    let known = match known.as_ref().and_then(found) {
        None => make(link).await?,
        Some(FORMER) => match make(link).await {
            // Only an operator may change them. The error contains their version.
            Err(StoreError::Denied(_)) => known,
            made => made?,
        },
        Some(_) => known,
    };
    schema::check(known.as_ref())?;
    link.recognize(known.as_ref()).await
}

/// Creates missing tables, and migrates those of version 1.
async fn make(link: &mut Link) -> Result<Option<Outcome>> {
    let mut statements = schema::statements();
    let row = statements.pop().unwrap_or_default();
    link.first(&Message::plain(statements)).await?;
    let there = columns(link).await?;
    for (table, column, change) in COLUMNS {
        if there.contains(&(table, column)) {
            continue;
        }
        // It waits for transactions that have used the table.
        let change = Message::plain(vec![format!("ALTER TABLE {table} {change}")]);
        if let Err(error) = link.first(&change).await
            && !columns(link).await?.contains(&(table, column))
        {
            return Err(error);
        } // Otherwise another client has made the same change at the same time.
    }
    link.first(&Message::plain(vec![row])).await?;
    let known = read_version(link).await?;
    match known.as_ref().and_then(found) {
        Some(FORMER) => {
            link.first(&opening::take_over()).await?;
            read_version(link).await
        }
        _ => Ok(known),
    }
}

/// Returns those of [`COLUMNS`] that exist.
async fn columns(link: &mut Link) -> Result<Vec<(&'static str, &'static str)>> {
    let names = COLUMNS.map(|(table, column, _)| format!("('{table}', '{column}')"));
    let there = link
        .first(&Message::plain(vec![format!(
            "SELECT table_name, column_name FROM information_schema.columns \
             WHERE table_schema = DATABASE() AND (table_name, column_name) IN ({})",
            names.join(", ")
        )]))
        .await?;
    let rows = there.last().map(Outcome::rows).unwrap_or_default();
    let is_there = |table: &str, column: &str| {
        rows.iter().any(|row| row.text(0) == Some(table) && row.text(1) == Some(column))
    };
    let names = COLUMNS.into_iter().map(|(table, column, _)| (table, column));
    Ok(names.filter(|(table, column)| is_there(table, column)).collect())
}

async fn read_version(link: &mut Link) -> Result<Option<Outcome>> {
    Ok(link.first(&schema::version()).await?.pop())
}
