//! `top`: shows all locks, and refreshes the list.

use std::{
    io::{self, IsTerminal, stdout},
    mem,
    pin::pin,
    thread,
    time::{Duration, Instant},
};

use distlock::{Client, LockInfo, QueueEntry};
use ratatui::{
    DefaultTerminal, Frame,
    crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers},
    layout::{Constraint, Layout},
    style::{Color, Modifier, Style},
    text::Line,
    widgets::{Paragraph, Row, Table, TableState},
};
use serde_json::json;
use tokio::{
    sync::mpsc::{UnboundedReceiver, unbounded_channel},
    time::sleep,
};

use crate::{
    exit::{self, Failure},
    inspect::{age, lock_object, until_signal},
    output::{Output, printable},
    queue_changes::QueueChanges,
};

/// How often the display is drawn.
const REDRAW: Duration = Duration::from_millis(50);
/// The shortest interval between listings, each of which reads every queue from the store.
const LEAST: Duration = Duration::from_millis(100);

/// The last listing, and how it is displayed.
struct View<'a> {
    client: &'a Client,
    locks: Vec<LockInfo>,
    queue_changes: QueueChanges,
    /// How long the last listing took.
    took: Duration,
    /// Since when the listings have failed, and the last error.
    silent: Option<(Instant, String)>,
    table: TableState,
}

/// Shows the locks until `q` or a signal. Without a terminal, or with `--json`, prints a line for
/// each listing.
pub(crate) async fn show(
    client: &Client,
    interval: Duration,
    output: Output,
) -> Result<u8, Failure> {
    let interval = interval.max(LEAST);
    let view = View {
        client,
        locks: Vec::new(),
        queue_changes: QueueChanges::default(),
        took: Duration::ZERO,
        silent: None,
        table: TableState::default(),
    };
    if output.is_json() || !stdout().is_terminal() {
        return until_signal(lines(view, interval, output)).await;
    }
    let mut terminal = ratatui::try_init()?;
    let ended = until_signal(screen(view, interval, &mut terminal)).await;
    // If the terminal is closed, ratatui would panic when it reports that on standard error.
    let shown = terminal.show_cursor();
    let _ = ratatui::try_restore();
    if shown.is_err() {
        mem::forget(terminal);
    }
    ended
}

impl View<'_> {
    /// Stores the result of a listing that began at `start`.
    fn take(&mut self, start: Instant, looked: distlock::Result<Vec<LockInfo>>) {
        match looked {
            Ok(mut locks) => {
                self.queue_changes.look(&locks, Instant::now());
                // The longest queue first.
                locks.sort_by_key(|lock| std::cmp::Reverse(lock.waiters().len()));
                self.locks = locks;
                self.silent = None;
            }
            Err(error) => {
                let since = self.silent.as_ref().map_or(start, |(since, _)| *since);
                self.silent = Some((since, exit::chain(&error)));
            }
        }
        self.took = start.elapsed();
    }

    /// Handles a key. Returns the exit code if the key ends the program.
    fn press(&mut self, key: KeyEvent) -> Option<u8> {
        if key.kind == KeyEventKind::Release {
            return None;
        }
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return Some(0),
            // In raw mode, the terminal sends no signal for Ctrl+C.
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                return Some(128 + 2);
            }
            KeyCode::Down | KeyCode::Char('j') => self.table.select_next(),
            KeyCode::Up | KeyCode::Char('k') => self.table.select_previous(),
            _ => {}
        }
        None
    }

    fn waiters(&self) -> usize {
        self.locks.iter().map(|lock| lock.waiters().len()).sum()
    }

    fn summary(&self) -> String {
        format!(
            "{} {}: {} locks, {} waiting, {:.1} handovers/s, {} lost places; refresh: {} ms",
            self.client.backend(),
            self.client.namespace(),
            self.locks.len(),
            self.waiters(),
            self.queue_changes.rate(Instant::now()),
            self.queue_changes.lost_places,
            self.took.as_millis(),
        )
    }

    fn draw(&mut self, frame: &mut Frame<'_>) {
        let [head, body, foot] =
            Layout::vertical([Constraint::Length(2), Constraint::Min(1), Constraint::Length(1)])
                .areas(frame.area());
        let second = match &self.silent {
            Some((since, error)) => {
                let text = format!("no update for {} s: {error}", since.elapsed().as_secs());
                Line::styled(printable(&text), Style::new().fg(Color::Red))
            }
            None => Line::default(),
        };
        frame.render_widget(Paragraph::new(vec![Line::from(self.summary()), second]), head);
        let columns = ["NAME", "KIND", "HOLDER", "AGE", "HOLDERS", "WAITING", "NEXT"];
        let heading = Row::new(columns).style(Style::new().add_modifier(Modifier::REVERSED));
        let widths = [
            Constraint::Fill(3),
            Constraint::Length(9),
            Constraint::Fill(2),
            Constraint::Length(10),
            Constraint::Length(7),
            Constraint::Length(7),
            Constraint::Fill(2),
        ];
        let table = Table::new(self.locks.iter().map(row), widths)
            .header(heading)
            .row_highlight_style(Style::new().add_modifier(Modifier::BOLD));
        frame.render_stateful_widget(table, body, &mut self.table);
        frame.render_widget(Paragraph::new("q: quit  ↑ ↓: scroll"), foot);
    }
}

fn row(lock: &LockInfo) -> Row<'static> {
    let owner = |entry: Option<&QueueEntry>| {
        entry.map_or_else(|| "-".to_owned(), |entry| printable(entry.owner()))
    };
    let holder = lock.holders().first();
    Row::new([
        printable(lock.name()),
        lock.kind().to_string(),
        owner(holder),
        holder.map_or_else(|| "-".to_owned(), age),
        lock.holders().len().to_string(),
        lock.waiters().len().to_string(),
        owner(lock.waiters().first()),
    ])
}

/// Reads the keyboard on a separate thread: once the terminal is closed, crossterm's functions do
/// not return.
fn read_keys() -> io::Result<UnboundedReceiver<io::Result<KeyEvent>>> {
    let (sender, keys) = unbounded_channel();
    let read = move || {
        loop {
            let key = match event::read() {
                Ok(Event::Key(key)) => Ok(key),
                Ok(_) => continue,
                Err(error) => Err(error),
            };
            let failed = key.is_err();
            if sender.send(key).is_err() || failed {
                return;
            }
        }
    };
    thread::Builder::new().name("keys".to_owned()).spawn(read)?;
    Ok(keys)
}

async fn screen(
    mut view: View<'_>,
    interval: Duration,
    terminal: &mut DefaultTerminal,
) -> Result<u8, Failure> {
    let (client, mut keys) = (view.client, read_keys()?);
    loop {
        let start = Instant::now();
        let mut looking = pin!(client.locks());
        let mut looks = true;
        while looks || start.elapsed() < interval {
            // An error if the terminal is closed.
            terminal.draw(|frame| view.draw(frame))?;
            tokio::select! {
                looked = &mut looking, if looks => {
                    view.take(start, looked);
                    looks = false;
                }
                Some(key) = keys.recv() => {
                    if let Some(code) = view.press(key?) {
                        return Ok(code);
                    }
                }
                () = sleep(REDRAW) => {}
            }
        }
    }
}

async fn lines(mut view: View<'_>, interval: Duration, output: Output) -> Result<u8, Failure> {
    loop {
        let start = Instant::now();
        view.take(start, view.client.locks().await);
        if let Some((_, error)) = &view.silent {
            output.note("silent", error, json!({}));
        } else {
            let locks: Vec<_> = view.locks.iter().map(lock_object).collect();
            let object = json!({
                "locks": locks,
                "waiters": view.waiters(),
                "handovers_per_second": view.queue_changes.rate(Instant::now()),
                "lost_places": view.queue_changes.lost_places,
            });
            output.line(&view.summary(), &object)?;
        }
        sleep(interval).await;
    }
}
