//! The tables, in Markdown.

use std::fmt::Write;

use crate::{
    measures::{
        ASKED, BYTES, BYTES_DRAINED, CPU, ENQUEUE, EVENTS, GAP, GAP_TRIPS, HANDED, HOLDING,
        JOIN_STATEMENTS, JOINED, KEEPALIVES, LOAD, LOCK, LOCK_TRIPS, LONGEST, OF_FLOOR,
        OF_FLOOR_MAX, OF_FLOOR_MIN, PER_SECOND, RELEASE, RENEWALS, REQUESTS, RSS, RSS_LOCK,
        RSS_PEAK, Row, SERVER_CPU, SESSIONS, STRANGER, TAKE, UNLOCK, UNLOCK_TRIPS, WAITING, WATCH,
    },
    statistics::round,
    targets::Verdict,
    workload::Workload,
};

/// A table for each workload.
pub(crate) fn markdown(rows: &[Row]) -> String {
    let mut text = String::new();
    for workload in Workload::ALL {
        let rows: Vec<_> = rows.iter().filter(|row| row.key.workload == workload).collect();
        if rows.is_empty() {
            continue;
        }
        let columns: &[Column] = match workload {
            Workload::W4 => QUEUE,
            Workload::W5 => TRIPS,
            Workload::W6 => HELD,
            Workload::W8 => BEHIND,
            Workload::W9 | Workload::WX => CROSSOVER,
            _ => PAIRS,
        };
        let _ = write!(text, "\n### {workload:?}: {}\n\n| store | N | subject |", workload.what());
        columns.iter().for_each(|(head, _)| _ = write!(text, " {head} |"));
        text += "\n|---|---:|---|";
        columns.iter().for_each(|_| text += "---:|");
        text.push('\n');
        for row in rows {
            let backend = row.key.backend;
            let place = format!("{backend} {}", row.key.variant.what());
            let _ = write!(text, "| {} | {} | {} |", place.trim(), row.key.n, row.name);
            columns.iter().for_each(|(_, cell)| _ = write!(text, " {} |", cell(row)));
            text.push('\n');
            if let Some(error) = &row.error {
                eprintln!(
                    "{workload:?} {backend} N={} {}: {} errors, as {error}",
                    row.key.n, row.name, row.errors
                );
            }
        }
    }
    text
}

type Column = (&'static str, fn(&Row) -> String);

const PAIRS: &[Column] = &[
    ("pairs/s", |row| number(row, PER_SECOND)),
    ("of floor", of_floor),
    ("lock p50 / p99 ms", |row| two(row, LOCK)),
    ("unlock p50 / p99 ms", |row| two(row, UNLOCK)),
    ("handed over/s", |row| number(row, HANDED)),
    ("gap p50 / p99 ms", |row| two(row, GAP)),
    ("longest wait, ms", |row| number(row, LONGEST)),
    ("requests, watch messages, events /pair", requests),
    ("bytes/pair", |row| number(row, BYTES)),
    ("CPU µs/pair", |row| number(row, CPU)),
    ("RSS MB", |row| number(row, RSS)),
    ("errors", |row| row.errors.to_string()),
];

const TRIPS: &[Column] = &[
    ("pairs/s", |row| number(row, PER_SECOND)),
    ("lock, round trips", |row| number(row, LOCK_TRIPS)),
    ("unlock", |row| number(row, UNLOCK_TRIPS)),
    ("gap", |row| number(row, GAP_TRIPS)),
    ("gap p50 / p99 ms", |row| two(row, GAP)),
    ("requests/pair", |row| number(row, REQUESTS)),
    ("errors", |row| row.errors.to_string()),
];

const QUEUE: &[Column] = &[
    ("handoffs/s", |row| number(row, PER_SECOND)),
    ("of floor", of_floor),
    ("enqueue all, s", |row| number(row, ENQUEUE)),
    ("gap p50 / p99 ms", |row| two(row, GAP)),
    ("requests, watch messages, events /waiter", requests),
    ("bytes/waiter", |row| number(row, BYTES)),
    ("bytes/handoff", |row| number(row, BYTES_DRAINED)),
    ("CPU µs/waiter", |row| number(row, CPU)),
    ("RSS, all waiting / peak, MB", |row| two(row, [RSS, RSS_PEAK])),
    ("errors", |row| row.errors.to_string()),
];

const HELD: &[Column] = &[
    ("take all, s", |row| number(row, TAKE)),
    ("release all, s", |row| number(row, RELEASE)),
    ("RSS/lock, B", |row| number(row, RSS_LOCK)),
    ("leases or sessions", |row| number(row, SESSIONS)),
    ("keepalives, requests of each in TTL/3", |row| {
        [KEEPALIVES, HOLDING].map(|measure| number(row, measure)).join(", ")
    }),
    ("requests, watch messages, events /lock", requests),
    ("errors", |row| row.errors.to_string()),
];

const BEHIND: &[Column] = &[
    ("requests a minute of all waiters", |row| number(row, WAITING)),
    ("renewals among them", |row| number(row, RENEWALS)),
    ("of one more client", |row| number(row, STRANGER)),
    ("join p50 / p99 ms", |row| two(row, JOINED)),
    ("statements per join and leave", |row| number(row, JOIN_STATEMENTS)),
    ("errors", |row| row.errors.to_string()),
];

const CROSSOVER: &[Column] = &[
    ("held for, ms", |row| row.key.hold_ms.to_string()),
    ("handovers/s", |row| number(row, PER_SECOND)),
    ("gap p50 / p99 ms", |row| two(row, GAP)),
    ("longest wait, ms", |row| number(row, LONGEST)),
    ("requests/handover", |row| number(row, ASKED)),
    ("requests/s", |row| number(row, LOAD)),
    ("server, CPU µs/handover", |row| number(row, SERVER_CPU)),
    ("clients, CPU µs/handover", |row| number(row, CPU)),
    ("errors", |row| row.errors.to_string()),
];

/// The requests that the store counts.
fn requests(row: &Row) -> String {
    let counted = [REQUESTS, WATCH, EVENTS].map(|measure| number(row, measure));
    let counted: Vec<_> = counted.into_iter().filter(|number| !number.is_empty()).collect();
    counted.join(", ")
}

/// With the minimum and the maximum of the single repeats, if they differ.
fn number(row: &Row, measure: &str) -> String {
    let Some(value) = row.get(measure) else { return String::new() };
    let [least, most] = row.spread.get(measure).copied().unwrap_or([value; 2]).map(round);
    let value = round(value);
    if least == most { value } else { format!("{value} ({least}–{most})") }
}

fn two(row: &Row, measures: [&str; 2]) -> String {
    let [one, other] = measures.map(|measure| number(row, measure));
    if one.is_empty() || other.is_empty() { String::new() } else { format!("{one} / {other}") }
}

/// With the minimum and the maximum of all slices.
fn of_floor(row: &Row) -> String {
    let all = [OF_FLOOR, OF_FLOOR_MIN, OF_FLOOR_MAX].map(|measure| row.get(measure).map(round));
    let [Some(ratio), Some(least), Some(most)] = all else { return String::new() };
    format!("{ratio} ({least}–{most})")
}

/// The targets and their results.
pub(crate) fn targets(verdicts: &[Verdict]) -> String {
    let mut text = String::from(
        "\n### Targets\n\n| | wanted | reached | | best peer, elsewhere |\n\
         |---|---:|---:|---|---:|\n",
    );
    // Error targets get a line only if there are errors.
    for verdict in verdicts.iter().filter(|verdict| !verdict.met || verdict.wanted != "0") {
        let Verdict { target, wanted, peer, .. } = verdict;
        let value = verdict.value.map_or_else(String::new, round);
        let met = if verdict.met { "" } else { "missed" };
        let _ = writeln!(text, "| {target} | {wanted} | {value} | {met} | {peer} |");
    }
    text
}
