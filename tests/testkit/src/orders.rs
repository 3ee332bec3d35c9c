//! The lines that a process and its parent exchange, from the process's side. The other side is a
//! [`Child`](crate::child::Child).

use std::{
    io::{self, BufRead, Write, stdin, stdout},
    thread,
};

use tokio::{
    sync::mpsc::{UnboundedReceiver, unbounded_channel},
    task::spawn_blocking,
};

/// Receives the parent's lines. The channel ends when the parent closes the input or ends.
pub fn orders() -> UnboundedReceiver<String> {
    listen(|| ())
}

/// Receives the parent's lines, and exits at once when the parent has ended. An orderly shutdown
/// would release locks.
pub fn orders_for_life() -> UnboundedReceiver<String> {
    listen(|| std::process::exit(0))
}

fn listen(at_the_end: fn()) -> UnboundedReceiver<String> {
    let (sender, orders) = unbounded_channel();
    thread::spawn(move || {
        for line in stdin().lock().lines().map_while(io::Result::ok) {
            // The receiver may be dropped if only the end matters.
            let _ = sender.send(line);
        }
        at_the_end();
    });
    orders
}

/// Reads the next order, for a process that reads one at a time. Returns `None` when the parent has
/// ended.
pub async fn next_order() -> io::Result<Option<String>> {
    let read = spawn_blocking(|| {
        let mut line = String::new();
        stdin().lock().read_line(&mut line).map(|_| line)
    });
    let line = read.await??;
    Ok((!line.is_empty()).then(|| line.trim_end().to_owned()))
}

/// Writes a line in one piece, so that a killed process leaves no partial lines.
pub fn say(line: &str) -> io::Result<()> {
    let mut out = stdout().lock();
    out.write_all(format!("{line}\n").as_bytes())?;
    out.flush()
}
