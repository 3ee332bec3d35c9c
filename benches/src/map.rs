//! Where polling is as good as waiting for a notification: a map for each store.

use std::path::Path;

use plotters::{
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};

use crate::{
    Result,
    backend::{self, Backend},
    canvas::{Canvas, HEAD, INK, SMALL, WIDTH, font, picture, sendable, text},
    measures::{ASKED, CPU, GAP, Row},
    task::Subject,
};

const CONTENDERS: [usize; 4] = [2, 8, 32, 128];
const HOLDS: [u64; 4] = [1000, 100, 10, 1];
const COLUMNS: usize = 3;
const MARGIN: i32 = 14;
/// The size of a panel, and of one of its cells.
const SIZE: (i32, i32) = (WIDTH / COLUMNS as i32, 236);
const CELL: (i32, i32) = (50, 42);
const CORNER: (i32, i32) = (62, 30);
/// The height of the legend above all panels.
const KEY: i32 = 34;
/// The share of the hold time that may be lost to the gap, in addition to an unavoidable loss.
const LOST: f64 = 0.05;
/// Readable on all of the colours, in light and dark mode.
const PALE: RGBColor = RGBColor(250, 250, 250);

/// The result of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    AsGood,
    AsksMore,
    Later,
    Worse,
}

const KEYS: [(Verdict, &str); 4] = [
    (Verdict::AsGood, "polling is as good"),
    (Verdict::Later, "polling loses time"),
    (Verdict::AsksMore, "polling sends more"),
    (Verdict::Worse, "polling does both"),
];

impl Verdict {
    fn color(self) -> RGBColor {
        match self {
            Self::AsGood => RGBColor(50, 122, 52),
            Self::Later => RGBColor(150, 98, 10),
            Self::AsksMore => RGBColor(116, 92, 160),
            Self::Worse => RGBColor(178, 62, 62),
        }
    }
}

/// One subject's gap in milliseconds, and its load on the store.
#[derive(Clone, Copy, Debug)]
struct Cost {
    gap: f64,
    load: f64,
}

/// Returns `true` if there was something to draw.
pub(crate) fn draw(path: &Path, rows: &[&Row]) -> Result<bool> {
    let find = |backend, hold_ms, n, subject| {
        let key = |row: &&&Row| {
            let key = row.key;
            (key.backend, key.hold_ms, key.n, key.subject) == (backend, hold_ms, n, subject)
        };
        let row = rows.iter().find(key)?;
        // Requests to a file are not counted: processor time is used instead.
        let load = if backend == Backend::Sqlite { CPU } else { ASKED };
        Some(Cost { gap: row.get(GAP[0])?, load: row.get(load)? })
    };
    let stores: Vec<_> =
        backend::ALL.into_iter().filter(|b| rows.iter().any(|row| row.key.backend == *b)).collect();
    if stores.is_empty() {
        return Ok(false);
    }
    let height = SIZE.1 * stores.len().div_ceil(COLUMNS) as i32;
    let title = "Polling every 50 ms is as good as waiting only where waiters poll, too";
    let axes = "gap (above) and requests for a handover, as multiples of distlock's; over \
                contenders and the hold time";
    picture(path, title, axes, KEY + height, |canvas| {
        key(canvas, (MARGIN, HEAD))?;
        for (place, backend) in stores.iter().enumerate() {
            let cell = |hold, n| {
                let of = |subject| find(*backend, hold, n, subject);
                Some((of(Subject::UniqueKey)?, of(Subject::Distlock)?))
            };
            let (row, column) = ((place / COLUMNS) as i32, (place % COLUMNS) as i32);
            let corner = (SIZE.0 * column, HEAD + KEY + SIZE.1 * row);
            panel(canvas, corner, &name(*backend), cell)?;
        }
        Ok(())
    })?;
    Ok(true)
}

fn name(backend: Backend) -> String {
    match backend {
        Backend::Sqlite => "SQLite (processor time)".to_owned(),
        _ => backend.title().to_owned(),
    }
}

fn panel(
    canvas: &Canvas,
    (x, y): (i32, i32),
    name: &str,
    cell: impl Fn(u64, usize) -> Option<(Cost, Cost)>,
) -> Result<()> {
    let centred = |size, color| font(size, color).pos(Pos::new(HPos::Center, VPos::Center));
    let (left, top) = (x + CORNER.0, y + CORNER.1);
    text(canvas, name, (left + 2 * CELL.0, y + 16), centred(15, INK))?;
    for (row, hold) in HOLDS.into_iter().enumerate() {
        let middle = top + CELL.1 * row as i32 + CELL.1 / 2;
        let held = if hold == 1000 { "1 s".to_owned() } else { format!("{hold} ms") };
        let style = font(SMALL, INK).pos(Pos::new(HPos::Right, VPos::Center));
        text(canvas, &held, (left - 6, middle), style)?;
        for (column, n) in CONTENDERS.into_iter().enumerate() {
            let corner = left + CELL.0 * column as i32;
            if let Some((trying, waiting)) = cell(hold, n) {
                let [gap, load] = [trying.gap / waiting.gap, trying.load / waiting.load].map(times);
                let fill = judge(hold, trying, waiting).color().filled();
                let area = [
                    (corner + 1, middle - CELL.1 / 2 + 1),
                    (corner + CELL.0 - 1, middle + CELL.1 / 2 - 1),
                ];
                canvas.draw(&Rectangle::new(area, fill)).map_err(sendable)?;
                let center = corner + CELL.0 / 2;
                text(canvas, &gap, (center, middle - 9), centred(SMALL, PALE))?;
                text(canvas, &load, (center, middle + 9), centred(SMALL, PALE))?;
            }
        }
    }
    for (column, n) in CONTENDERS.into_iter().enumerate() {
        let center = left + CELL.0 * column as i32 + CELL.0 / 2;
        text(canvas, &n.to_string(), (center, top + 4 * CELL.1 + 10), centred(SMALL, INK))?;
    }
    Ok(())
}

/// The legend of the colours, in one line.
fn key(canvas: &Canvas, (x, y): (i32, i32)) -> Result<()> {
    let width = (WIDTH - 2 * x) / KEYS.len() as i32;
    for (place, (verdict, name)) in KEYS.into_iter().enumerate() {
        let left = x + width * place as i32;
        let area = [(left, y), (left + width - 2, y + 24)];
        canvas.draw(&Rectangle::new(area, verdict.color().filled())).map_err(sendable)?;
        let style = font(SMALL, PALE).pos(Pos::new(HPos::Center, VPos::Center));
        text(canvas, name, (left + width / 2, y + 12), style)?;
    }
    Ok(())
}

/// As fast: no more of the hold time is lost.
fn judge(hold_ms: u64, trying: Cost, waiting: Cost) -> Verdict {
    let later = trying.gap - waiting.gap > LOST * hold_ms as f64;
    match (later, trying.load > waiting.load * 1.1) {
        (false, false) => Verdict::AsGood,
        (false, true) => Verdict::AsksMore,
        (true, false) => Verdict::Later,
        (true, true) => Verdict::Worse,
    }
}

fn times(ratio: f64) -> String {
    match ratio {
        ..0.095 => format!("× {ratio:.2}"),
        ..9.95 => format!("× {ratio:.1}"),
        _ => format!("× {ratio:.0}"),
    }
}
