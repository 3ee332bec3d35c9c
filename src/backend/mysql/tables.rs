//! The tables as a client finds them: it makes what is missing, and takes over those of version 1.

use super::{
    connection::Link,
    message::Message,
    opening,
    schema::{self, COLUMNS, FORMER, found},
};
use crate::backend::{Result, StoreError, sql::outcome::Outcome};

/// Sees that there are tables that this build can work with.
pub(super) async fn prepare(link: &mut Link) -> Result<()> {
    let known = match link.bare {
        true => None,
        false => told(link).await?,
    };
    // Without a row they are being made at this moment, or were left half made.
    let known = match known.as_ref().and_then(found) {
        None => make(link).await?,
        Some(FORMER) => match make(link).await {
            // Only an operator may change them. The error names their version.
            Err(StoreError::Denied(_)) => known,
            made => made?,
        },
        Some(_) => known,
    };
    schema::check(known.as_ref())?;
    link.recognize(known.as_ref()).await
}

/// Makes what is missing of the tables, and takes over those of version 1.
async fn make(link: &mut Link) -> Result<Option<Outcome>> {
    let mut statements = schema::statements();
    let row = statements.pop().unwrap_or_default();
    link.first(&Message::plain(statements)).await?;
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
    for (table, column, change) in COLUMNS {
        if !is_there(table, column) {
            // It waits for transactions that have used the table.
            link.first(&Message::plain(vec![format!("ALTER TABLE {table} {change}")])).await?;
        }
    }
    link.first(&Message::plain(vec![row])).await?;
    let known = told(link).await?;
    match known.as_ref().and_then(found) {
        Some(FORMER) => {
            link.first(&opening::take_over()).await?;
            told(link).await
        }
        _ => Ok(known),
    }
}

async fn told(link: &mut Link) -> Result<Option<Outcome>> {
    Ok(link.first(&schema::version()).await?.pop())
}
