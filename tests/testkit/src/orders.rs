//! What a process and the one that started it say to each other, a line each, as the former sees
//! it. The other side is a [`Child`](crate::child::Child).

use std::{
    io::{self, BufRead, Write, stdin, stdout},
    thread,
};

use tokio::{
    sync::mpsc::{UnboundedReceiver, unbounded_channel},
    task::spawn_blocking,
};

/// What the process that started this one says. It ends when that hangs up, or has ended.
pub fn orders() -> UnboundedReceiver<String> {
    listen(|| ())
}

/// The same for a process that exits at once when the one that started it has ended: in good order
/// it would release its locks.
pub fn orders_for_life() -> UnboundedReceiver<String> {
    listen(|| std::process::exit(0))
}

fn listen(at_the_end: fn()) -> UnboundedReceiver<String> {
    let (sender, orders) = unbounded_channel();
    thread::spawn(move || {
        for line in stdin().lock().lines().map_while(io::Result::ok) {
            // Maybe only the end is of interest.
            let _ = sender.send(line);
        }
        at_the_end();
    });
    orders
}

/// The next order, for a process that reads one at a time; `None`: there is nobody any more.
pub async fn next_order() -> io::Result<Option<String>> {
    let read = spawn_blocking(|| {
        let mut line = String::new();
        stdin().lock().read_line(&mut line).map(|_| line)
    });
    let line = read.await??;
    Ok((!line.is_empty()).then(|| line.trim_end().to_owned()))
}

/// Says a line, in one piece: a process that is killed leaves no half ones.
pub fn say(line: &str) -> io::Result<()> {
    let mut out = stdout().lock();
    out.write_all(format!("{line}\n").as_bytes())?;
    out.flush()
}
