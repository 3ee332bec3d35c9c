//! A table in a file. std's file lock gives each statement the atomicity that a database would; it
//! does not span two statements.

use std::{
    fmt,
    fs::{File, OpenOptions},
    io::{Read, Result, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

pub(crate) struct Table {
    path: PathBuf,
}

/// The write came with a token that is older than one the table has seen.
#[derive(Debug)]
pub(crate) struct Stale {
    pub(crate) newest: u64,
}

impl fmt::Display for Stale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stale write refused: the table has seen token {}", self.newest)
    }
}

/// What the file holds: the newest token on the first line, then for each row how often it was
/// processed.
struct Content {
    newest_token: u64,
    processed: Vec<u32>,
}

impl Table {
    pub(crate) fn create(path: &Path, rows: usize) -> Result<Self> {
        let content = Content { newest_token: 0, processed: vec![0; rows] };
        std::fs::write(path, content.to_text())?;
        Ok(Self::open(path))
    }

    pub(crate) fn open(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    /// `SELECT id FROM rows WHERE processed = 0 LIMIT limit`
    pub(crate) fn unprocessed(&self, limit: usize) -> Result<Vec<usize>> {
        let open = |content: &mut Content| {
            let rows = content.processed.iter().enumerate();
            rows.filter(|(_, times)| **times == 0).map(|(row, _)| row).take(limit).collect()
        };
        self.statement(open)
    }

    /// `UPDATE rows SET processed = processed + 1 WHERE id = row`, refused if a newer token than
    /// this one has been seen.
    pub(crate) fn mark(
        &self,
        row: usize,
        token: Option<u64>,
    ) -> Result<std::result::Result<(), Stale>> {
        self.statement(|content| {
            if let Some(token) = token {
                if token < content.newest_token {
                    return Err(Stale { newest: content.newest_token });
                }
                content.newest_token = token;
            }
            content.processed[row] += 1;
            Ok(())
        })
    }

    pub(crate) fn rows(&self) -> Result<usize> {
        self.statement(|content| content.processed.len())
    }

    pub(crate) fn processed_twice(&self) -> Result<usize> {
        self.statement(|content| content.processed.iter().filter(|times| **times > 1).count())
    }

    fn statement<T>(&self, run: impl FnOnce(&mut Content) -> T) -> Result<T> {
        let mut file: File = OpenOptions::new().read(true).write(true).open(&self.path)?;
        file.lock()?; // until the file is closed
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        let mut content = Content::from_text(&text);
        let result = run(&mut content);
        file.seek(SeekFrom::Start(0))?;
        file.set_len(0)?;
        file.write_all(content.to_text().as_bytes())?;
        Ok(result)
    }
}

impl Content {
    fn to_text(&self) -> String {
        let lines = self.processed.iter().map(|times| format!("{times}\n"));
        std::iter::once(format!("{}\n", self.newest_token)).chain(lines).collect()
    }

    fn from_text(text: &str) -> Self {
        let mut lines = text.lines();
        Self {
            newest_token: lines.next().and_then(|line| line.parse().ok()).unwrap_or(0),
            processed: lines.filter_map(|line| line.parse().ok()).collect(),
        }
    }
}
