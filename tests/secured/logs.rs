//! Collects everything that this process logs, of all crates, at every level.

use std::{
    io,
    sync::{Mutex, OnceLock, PoisonError},
};

use tracing_subscriber::{filter::LevelFilter, fmt::MakeWriter};

static LOGS: Mutex<Vec<u8>> = Mutex::new(Vec::new());

struct Writer;

impl io::Write for Writer {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        LOGS.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Make;

impl<'a> MakeWriter<'a> for Make {
    type Writer = Writer;

    fn make_writer(&'a self) -> Writer {
        Writer
    }
}

/// Collects from now on.
pub(crate) fn collect(level: LevelFilter) {
    static ONCE: OnceLock<()> = OnceLock::new();
    ONCE.get_or_init(|| {
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(level)
            .with_ansi(false)
            .with_writer(Make)
            .with_span_events(tracing_subscriber::fmt::format::FmtSpan::NEW)
            .finish();
        tracing::subscriber::set_global_default(subscriber).expect("no other subscriber is set");
    });
}

/// Returns the log since the collection began.
pub(crate) fn collected() -> String {
    let logs = LOGS.lock().unwrap_or_else(PoisonError::into_inner);
    String::from_utf8_lossy(&logs).into_owned()
}
