//! The plots, and the message of each one.

use std::path::{Path, PathBuf};

use crate::{
    Result,
    backend::{self, Backend},
    bars::{self, Bar, Group},
    canvas::{SUBJECTS, color, figure},
    case::Variant,
    map,
    measures::{ASKED, GAP, PER_SECOND, Row},
    panels::{self, Figure, Line, Panel},
    task::Subject,
    workload::Workload,
};

pub(crate) fn draw(folder: &Path, rows: &[Row]) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for backend in backend::ALL {
        let rows: Vec<_> = rows.iter().filter(|row| row.key.backend == backend).collect();
        for (name, draw) in [("gap", gaps as Draw), ("pairs", rates)] {
            let path = folder.join(format!("{name}-{backend}.svg"));
            if draw(&path, backend, &rows)? {
                paths.push(path);
            }
        }
    }
    let crossover: Vec<_> = rows.iter().filter(|row| row.key.workload == Workload::WX).collect();
    for (name, draw) in
        [("wait-gap", waiting as Picture), ("wait-requests", asking), ("wait-or-try", map::draw)]
    {
        let path = folder.join(format!("{name}.svg"));
        if draw(&path, &crossover)? {
            paths.push(path);
        }
    }
    Ok(paths)
}

type Picture = fn(&Path, &[&Row]) -> Result<bool>;

const CONTENDERS: &[f64] = &[1.0, 2.0, 8.0, 32.0, 128.0];

/// Of cases with this hold time.
const GAP_HOLD: u64 = 10;
const ASKED_HOLD: u64 = 100;

fn waiting(path: &Path, rows: &[&Row]) -> Result<bool> {
    let figure = Figure {
        title: "Polling is slow with few waiters, not with many",
        axes: "gap between two holders, median, ms, over contenders; each holds the lock for 10 ms",
        across: CONTENDERS,
        up: &[0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0],
    };
    all_stores(path, &figure, &lines(rows, GAP_HOLD, GAP[0], true))
}

fn asking(path: &Path, rows: &[&Row]) -> Result<bool> {
    let figure = Figure {
        title: "… and every polling client loads the server",
        axes: "requests for one handover, over contenders; each holds the lock for 100 ms",
        across: &CONTENDERS[1..],
        up: &[1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0],
    };
    all_stores(path, &figure, &lines(rows, ASKED_HOLD, ASKED, false))
}

/// Returns `true` if there was something to draw.
fn all_stores(path: &Path, figure: &Figure<'_>, panels: &[Panel]) -> Result<bool> {
    if !panels.is_empty() {
        panels::draw(path, figure, panels)?;
    }
    Ok(!panels.is_empty())
}

/// Of all stores for which distlock has such a figure.
fn lines(rows: &[&Row], hold_ms: u64, measure: &str, floor: bool) -> Vec<Panel> {
    use Subject::{Distlock, Floor, Often, UniqueKey};
    let panel = |backend: Backend| {
        let subjects = [Floor, Distlock, UniqueKey, Often].into_iter();
        let lines = subjects.filter(|subject| floor || *subject != Floor).map(|subject| {
            let of = rows.iter().filter(|row| {
                let key = row.key;
                (key.backend, key.hold_ms, key.subject) == (backend, hold_ms, subject)
            });
            let points = of.filter_map(|row| Some((row.key.n as f64, row.get(measure)?)));
            line(subject, backend, points.collect())
        });
        let how = match backend {
            Backend::Mysql | Backend::Sqlite => "polls",
            _ => "is notified",
        };
        let name = format!("{}: distlock {how}", backend.title());
        Panel { name, lines: lines.collect() }
    };
    let is_measured = |panel: &Panel| panel.lines.iter().all(|line| !line.points.is_empty());
    backend::ALL.into_iter().map(panel).filter(is_measured).collect()
}

fn line(subject: Subject, backend: Backend, points: Vec<(f64, f64)>) -> Line {
    let ours = subject == Subject::Distlock;
    Line { name: subject.label(backend), color: color(subject), ours, points }
}

type Draw = fn(&Path, Backend, &[&Row]) -> Result<bool>;

/// The gap by the number of contenders: the usual and the rare values.
fn gaps(path: &Path, backend: Backend, rows: &[&Row]) -> Result<bool> {
    let contended =
        |row: &&Row| row.key.workload == Workload::W3 && row.key.variant == Variant::Plain;
    let rows: Vec<_> = rows.iter().copied().filter(contended).collect();
    let all = || rows.iter().flat_map(|row| GAP.map(|gap| row.get(gap))).flatten();
    let Some(most) = all().reduce(f64::max) else { return Ok(false) };
    let least = all().fold(most, f64::min);
    let mut across: Vec<_> = rows.iter().map(|row| row.key.n).collect();
    across.sort_unstable();
    across.dedup();
    let few = across.first().copied().unwrap_or_default();
    let across: Vec<_> = across.into_iter().map(|n| n as f64).collect();
    let panels = GAP.into_iter().zip(["median", "99th percentile"]).map(|(gap, name)| {
        let lines = shown(&rows).into_iter().map(|subject| {
            let of = rows.iter().filter(|row| row.key.subject == subject);
            let points = of.filter_map(|row| Some((row.key.n as f64, row.get(gap)?)));
            line(subject, backend, points.collect())
        });
        Panel { name: name.to_owned(), lines: lines.collect() }
    });
    let (ours, others) = sides(&rows, few, GAP[1]);
    let title = format!(
        "{}: 99 % of handovers within {} ms with distlock{}",
        backend.title(),
        ours.map_or_else(|| "–".to_owned(), figure),
        others.map_or_else(String::new, |others| format!(", {others} ms with others"))
    );
    let axes = format!(
        "ms from the start of an unlock to the next grant, over contenders (title: {few}); \
         floor: two plain writes"
    );
    let up = decades(least, most);
    let picture = Figure { title: &title, axes: &axes, across: &across, up: &up };
    panels::draw(path, &picture, &panels.collect::<Vec<_>>())?;
    Ok(true)
}

/// Round numbers, from below the minimum to above the maximum.
fn decades(least: f64, most: f64) -> Vec<f64> {
    let all = [0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0, 10_000.0];
    let from = all.iter().rposition(|tick| *tick <= least).unwrap_or_default();
    let to = all.iter().position(|tick| *tick >= most).unwrap_or(all.len() - 1);
    all[from.min(to.saturating_sub(1))..=to].to_vec()
}

/// Locks and unlocks a second, with a group of bars for each case.
fn rates(path: &Path, backend: Backend, rows: &[&Row]) -> Result<bool> {
    let plain = |row: &&Row| {
        use Workload::{W1, W2, W3, W4};
        matches!(row.key.workload, W1 | W2 | W3 | W4) && row.key.variant == Variant::Plain
    };
    let rows: Vec<_> = rows.iter().copied().filter(plain).collect();
    let mut cases: Vec<_> = rows.iter().map(|row| (row.key.workload, row.key.n)).collect();
    cases.sort_unstable();
    cases.dedup();
    let groups = cases.into_iter().map(|(workload, n)| {
        let bars = SUBJECTS.into_iter().filter_map(|(subject, color)| {
            let of = |row: &&&Row| {
                (row.key.workload, row.key.n, row.key.subject) == (workload, n, subject)
            };
            let row = rows.iter().find(of)?;
            let value = row.get(PER_SECOND)?;
            let spread = row.spread.get(PER_SECOND).copied();
            Some(Bar { name: subject.label(backend), color, value, spread })
        });
        let name = match workload {
            Workload::W1 => "one task".to_owned(),
            Workload::W2 => format!("{n} tasks, a lock each"),
            Workload::W4 => format!("{} waiters, each granted once", figure(n as f64)),
            _ => format!("{n} tasks contend for one lock"),
        };
        Group { name, bars: bars.collect() }
    });
    let groups: Vec<_> = groups.filter(|group| !group.bars.is_empty()).collect();
    if groups.is_empty() {
        return Ok(false);
    }
    let contended: Vec<_> =
        rows.iter().copied().filter(|row| row.key.workload == Workload::W3).collect();
    let most = contended.iter().map(|row| row.key.n).max().unwrap_or_default();
    let title = match sides(&contended, most, PER_SECOND) {
        (Some(ours), others) => format!(
            "{}: {most} tasks lock {} times a second with distlock{}",
            backend.title(),
            figure(ours),
            others.map_or_else(String::new, |others| format!(", {others} with other locks"))
        ),
        _ => format!("{}: how often a lock is acquired and released", backend.title()),
    };
    let repeated = groups.iter().flat_map(|group| &group.bars).any(|bar| bar.spread.is_some());
    let thin = if repeated { "; thin: range of the repeats" } else { "" };
    let axes = format!(
        "locks and unlocks a second, each group on its own scale; floor: two plain writes{thin}"
    );
    bars::draw(path, &title, &axes, &groups)?;
    Ok(true)
}

/// distlock's figure with this number of contenders, and the range of other locks.
fn sides(rows: &[&Row], n: usize, measure: &str) -> (Option<f64>, Option<String>) {
    let of = |row: &&Row| Some((row.key.subject, row.get(measure)?)).filter(|_| row.key.n == n);
    let all: Vec<_> = rows.iter().filter_map(of).collect();
    let ours = all.iter().find(|(subject, _)| *subject == Subject::Distlock);
    let others = || {
        let others = all
            .iter()
            .filter(|(subject, _)| !matches!(subject, Subject::Distlock | Subject::Floor));
        others.map(|(_, value)| *value)
    };
    let (least, most) = (others().reduce(f64::min), others().reduce(f64::max));
    let range = least.zip(most).map(|ends| {
        let (least, most) = (figure(ends.0), figure(ends.1));
        if least == most { least } else { format!("{least} to {most}") }
    });
    (ours.map(|(_, value)| *value), range)
}

/// The measured subjects, because a run may leave some out.
fn shown(rows: &[&Row]) -> Vec<Subject> {
    let measured = |subject: &Subject| rows.iter().any(|row| row.key.subject == *subject);
    SUBJECTS.into_iter().map(|(subject, _)| subject).filter(measured).collect()
}
