//! A table in a file. The file lock of the standard library makes each statement atomic, as a
//! database would. The file lock does not span two statements.

use std::{
    fs::OpenOptions,
    io::{Read, Result, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use super::table::Stale;

pub(crate) struct File {
    path: PathBuf,
}

/// The content of the file: the newest token in the first line, then for each row how often it was
/// processed.
struct Content {
    newest_token: u64,
    processed: Vec<u32>,
}

impl File {
    pub(crate) fn open(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    pub(crate) fn create(&self, rows: usize) -> Result<()> {
        let content = Content { newest_token: 0, processed: vec![0; rows] };
        std::fs::write(&self.path, content.to_text())
    }

    pub(crate) fn remove(&self) -> Result<()> {
        std::fs::remove_file(&self.path)
    }

    pub(crate) fn unprocessed(&self, limit: usize) -> Result<Vec<usize>> {
        let open = |content: &mut Content| {
            let rows = content.processed.iter().enumerate();
            rows.filter(|(_, times)| **times == 0).map(|(row, _)| row).take(limit).collect()
        };
        self.statement(open)
    }

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
        let mut file = OpenOptions::new().read(true).write(true).open(&self.path)?;
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
