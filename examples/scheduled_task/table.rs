//! The table from which the instances take their rows. If the lock is in a database on a
//! server, the table is in that database. Otherwise, the table is in a file.

use std::{error::Error, fmt, path::Path};

#[cfg(any(feature = "mysql", feature = "postgres"))]
use super::database::Database;
use super::file::File;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

pub(crate) enum Table {
    File(File),
    #[cfg(any(feature = "mysql", feature = "postgres"))]
    Database(Database),
}

/// The error of a write whose token is older than one that the table has seen.
#[derive(Debug)]
pub(crate) struct Stale {
    pub(crate) newest: u64,
}

impl fmt::Display for Stale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stale write refused: the table has seen token {}", self.newest)
    }
}

impl Table {
    /// Returns the name of this process's table.
    pub(crate) fn name(url: &str) -> String {
        let process = std::process::id();
        if in_database(url) {
            return format!("scheduled_task_{process}");
        }
        let path = std::env::temp_dir().join(format!("distlock-scheduled-task-{process}"));
        path.to_string_lossy().into_owned()
    }

    pub(crate) async fn create(url: &str, name: &str, rows: usize) -> Result<Self> {
        let mut table = Self::open(url, name).await?;
        match &mut table {
            Self::File(file) => file.create(rows)?,
            #[cfg(any(feature = "mysql", feature = "postgres"))]
            Self::Database(database) => database.create(rows).await?,
        }
        Ok(table)
    }

    pub(crate) async fn open(url: &str, name: &str) -> Result<Self> {
        match in_database(url) {
            #[cfg(any(feature = "mysql", feature = "postgres"))]
            true => Ok(Self::Database(Database::open(url, name).await?)),
            _ => Ok(Self::File(File::open(Path::new(name)))),
        }
    }

    pub(crate) async fn remove(&mut self) -> Result<()> {
        match self {
            Self::File(file) => Ok(file.remove()?),
            #[cfg(any(feature = "mysql", feature = "postgres"))]
            Self::Database(database) => database.remove().await,
        }
    }

    /// Runs `SELECT id FROM rows WHERE processed = 0 LIMIT limit`.
    pub(crate) async fn unprocessed(&mut self, limit: usize) -> Result<Vec<usize>> {
        match self {
            Self::File(file) => Ok(file.unprocessed(limit)?),
            #[cfg(any(feature = "mysql", feature = "postgres"))]
            Self::Database(database) => database.unprocessed(limit).await,
        }
    }

    /// Runs `UPDATE rows SET processed = processed + 1 WHERE id = row`.
    ///
    /// The write is refused if the table has seen a newer token.
    pub(crate) async fn mark(
        &mut self,
        row: usize,
        token: Option<u64>,
    ) -> Result<std::result::Result<(), Stale>> {
        match self {
            Self::File(file) => Ok(file.mark(row, token)?),
            #[cfg(any(feature = "mysql", feature = "postgres"))]
            Self::Database(database) => database.mark(row, token).await,
        }
    }

    /// Returns the number of rows, and of those processed more than once.
    pub(crate) async fn count(&mut self) -> Result<(usize, usize)> {
        match self {
            Self::File(file) => Ok((file.rows()?, file.processed_twice()?)),
            #[cfg(any(feature = "mysql", feature = "postgres"))]
            Self::Database(database) => database.count().await,
        }
    }
}

fn in_database(url: &str) -> bool {
    let scheme = url.split("://").next().unwrap_or_default();
    cfg!(feature = "mysql") && scheme == "mysql"
        || cfg!(feature = "postgres") && matches!(scheme, "postgres" | "postgresql")
}
