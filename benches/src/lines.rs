//! The lines of the documents that a run on Redis updates: copy each over the line with the same
//! beginning.

use std::fmt::Write;

use crate::{
    backend::Backend,
    case::Variant,
    measures::{
        ASKED, CPU, GAP, HANDED, Key, LOCK, LONGEST, PER_SECOND, REQUESTS, Row, SERVER_CPU, UNLOCK,
    },
    task::Subject,
    workload::Workload,
};
use Subject::{Distlock, Floor, Often, RedisPy, Redisson, Rslock, Scripts, UniqueKey};
use Variant::{Across, Plain};
use Workload::{W1, W2, W3, W5, WX};

/// distlock's figure divided by another subject's.
type Ratio = (&'static str, Workload, Variant, usize, &'static str);

#[rustfmt::skip] // a table
const RATIOS: [Ratio; 13] = [
    ("one lock, one task: pairs/s", W1, Plain, 1, PER_SECOND),
    ("64 locks, 64 tasks: pairs/s", W2, Plain, 64, PER_SECOND),
    ("2 contenders: handovers/s", W3, Plain, 2, HANDED),
    ("16 contenders: handovers/s", W3, Plain, 16, HANDED),
    ("128 contenders: handovers/s", W3, Plain, 128, HANDED),
    ("16 contenders: the longest wait", W3, Plain, 16, LONGEST),
    ("128 contenders: the longest wait", W3, Plain, 128, LONGEST),
    ("16 contenders: requests per pair", W3, Plain, 16, REQUESTS),
    ("128 contenders: requests per pair", W3, Plain, 128, REQUESTS),
    ("16 processes: handovers/s", W3, Across, 16, HANDED),
    ("16 processes: the longest wait", W3, Across, 16, LONGEST),
    ("5 ms away, one task: pairs/s", W5, Plain, 1, PER_SECOND),
    ("5 ms away, 16 processes: handovers/s", W5, Across, 16, HANDED),
];
const OTHERS: [Subject; 5] = [Floor, RedisPy, Rslock, Redisson, Scripts];
const WAITING: [Subject; 5] = [Distlock, RedisPy, Rslock, Redisson, Floor];

/// Returns nothing if Redis was not measured.
pub(crate) fn of_documents(rows: &[Row]) -> String {
    let find = |workload, variant, hold_ms, n, subject| {
        let key = Key { workload, backend: Backend::Redis, variant, hold_ms, n, subject };
        rows.iter().find(|row| row.key == key)
    };
    let mut performance = String::new();
    for (name, workload, variant, n, measure) in RATIOS {
        let of = |subject| find(workload, variant, 0, n, subject)?.get(measure);
        let Some(ours) = of(Distlock) else { continue };
        let cells = OTHERS.map(|other| of(other).map(|other| ours / other));
        let _ = writeln!(performance, "| {name} |{}", cells.map(number).concat());
    }
    let held = |n, subject| find(WX, Plain, 10, n, subject);
    let measured = |n: &usize| held(*n, Distlock).is_some();
    let asked = |n, subject| number(held(n, subject).and_then(|row| row.get(ASKED)));
    for n in [2, 16, 128].into_iter().filter(measured) {
        let gaps = WAITING.map(|subject| two(held(n, subject), GAP)).concat();
        let asked = WAITING.map(|subject| asked(n, subject)).concat();
        let _ = writeln!(performance, "| {n} |{gaps}{asked}");
    }
    let mut choosing = String::new();
    for n in [2, 8, 32, 128].into_iter().filter(measured) {
        let store = if n == 2 { "Redis" } else { "" };
        let gaps = [Distlock, UniqueKey, Often, Floor].map(|subject| two(held(n, subject), GAP));
        let loops = [Distlock, UniqueKey, Often];
        let asked = loops.map(|subject| asked(n, subject)).concat();
        let cpu = |row: &Row| Some((row.get(SERVER_CPU)? + row.get(CPU)?) / 1e3);
        let cpu = loops.map(|subject| number(held(n, subject).and_then(cpu))).concat();
        let _ = writeln!(choosing, "| {store} | {n} |{}{asked}{cpu}", gaps.concat());
    }
    let alone = |subject| {
        let row = held(1, subject)?;
        Some(row.get(LOCK[0])? + row.get(UNLOCK[0])?)
    };
    let gap = |n, subject| held(n, subject)?.get(GAP[0]);
    if alone(Distlock).is_some() {
        let fastest = [
            alone(Floor),
            alone(UniqueKey),
            alone(Distlock),
            gap(2, Floor),
            gap(2, Distlock),
            gap(128, Distlock),
        ];
        let _ = writeln!(choosing, "| Redis |{}", fastest.map(number).concat());
    }
    let mut text = String::new();
    for (file, lines) in [("performance", performance), ("choosing", choosing)] {
        if !lines.is_empty() {
            let _ = write!(text, "\n### Lines of docs/{file}.md, Redis\n\n{lines}");
        }
    }
    text
}

/// With two significant digits, as in the documents.
fn short(value: f64) -> String {
    match value {
        ..0.995 => format!("{value:.2}"),
        ..9.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

fn number(value: Option<f64>) -> String {
    format!(" {} |", value.map_or_else(|| "–".to_owned(), short))
}

fn two(row: Option<&Row>, measures: [&str; 2]) -> String {
    let both = row.and_then(|row| Some([row.get(measures[0])?, row.get(measures[1])?]));
    match both {
        Some([one, other]) => format!(" {} / {} |", short(one), short(other)),
        None => " – |".to_owned(),
    }
}
