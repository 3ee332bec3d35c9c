//! The pictures.

use std::path::{Path, PathBuf};

use plotters::{coord::ranged1d::ValueFormatter, prelude::*};

use crate::{
    Result,
    backend::Backend,
    canvas::{SUBJECTS, color, told},
    case::Variant,
    map,
    measures::{ASKED, GAP, PER_SECOND, Row},
    panels::{self, Figure, Line, Panel},
    task::Subject,
    workload::Workload,
};

const SIZE: (u32, u32) = (900, 420);
pub(crate) fn draw(folder: &Path, rows: &[Row]) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for backend in Backend::ALL {
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

/// Of those who hold the lock for so long.
const GAP_HOLD: u64 = 10;
const ASKED_HOLD: u64 = 100;

fn waiting(path: &Path, rows: &[&Row]) -> Result<bool> {
    let figure = Figure {
        title: "Trying again and again is slow where few wait, not where many do",
        axes: "gap between two holders, median, ms, over contenders; each holds the lock for 10 ms",
        across: CONTENDERS,
        up: &[0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0],
    };
    let panels = lines(rows, GAP_HOLD, GAP[0], true);
    if !panels.is_empty() {
        panels::draw(path, &figure, &panels)?;
    }
    Ok(!panels.is_empty())
}

fn asking(path: &Path, rows: &[&Row]) -> Result<bool> {
    let figure = Figure {
        title: "… and each who waits is work for the server",
        axes: "requests for one hand-over, over contenders; each holds the lock for 100 ms",
        across: &CONTENDERS[1..],
        up: &[1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0],
    };
    let panels = lines(rows, ASKED_HOLD, ASKED, false);
    if !panels.is_empty() {
        panels::draw(path, &figure, &panels)?;
    }
    Ok(!panels.is_empty())
}

/// Of all stores that distlock has such a figure of.
fn lines(rows: &[&Row], hold_ms: u64, measure: &str, floor: bool) -> Vec<Panel> {
    use Subject::{Distlock, Floor, Often, UniqueKey};
    let panel = |backend: Backend| {
        let name = |subject| match subject {
            Distlock if matches!(backend, Backend::Mysql | Backend::Sqlite) => "distlock looks",
            Distlock => "distlock is told",
            UniqueKey => "every 50 ms",
            Often => "every 5 ms",
            _ => "floor",
        };
        let subjects = [Floor, Distlock, UniqueKey, Often].into_iter();
        let lines = subjects.filter(|subject| floor || *subject != Floor).map(|subject| {
            let of = rows.iter().filter(|row| {
                let key = row.key;
                (key.backend, key.hold_ms, key.subject) == (backend, hold_ms, subject)
            });
            let points = of.filter_map(|row| Some((row.key.n as f64, row.get(measure)?)));
            Line { name: name(subject), color: color(subject), points: points.collect() }
        });
        Panel { name: backend.title(), lines: lines.collect() }
    };
    let told = |panel: &Panel| panel.lines.iter().all(|line| !line.points.is_empty());
    Backend::ALL.into_iter().map(panel).filter(told).collect()
}

type Draw = fn(&Path, Backend, &[&Row]) -> Result<bool>;

/// The handoff gap over the number of contenders.
fn gaps(path: &Path, backend: Backend, rows: &[&Row]) -> Result<bool> {
    let contended = |row: &&&Row| {
        matches!(row.key.workload, Workload::W3 | Workload::W4) && row.key.variant == Variant::Plain
    };
    let rows: Vec<_> = rows.iter().filter(contended).collect();
    let all = || rows.iter().flat_map(|row| GAP.map(|gap| row.get(gap))).flatten();
    let Some(most) = all().reduce(f64::max) else { return Ok(false) };
    let least = all().fold(most, f64::min);

    let area = SVGBackend::new(path, SIZE).into_drawing_area();
    area.fill(&WHITE).map_err(told)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(format!("{backend}: handoff gap, p50 and p99 (thin)"), ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d((1.5..7000.0).log_scale(), (least * 0.7..most * 3.0).log_scale())
        .map_err(told)?;
    let mut mesh = chart.configure_mesh();
    mesh.light_line_style(WHITE).x_desc("contenders of one name, or waiters").y_desc("ms");
    mesh.x_label_formatter(&|n| format!("{n:.0}"))
        .y_label_formatter(&|ms| format!("{ms}"))
        .draw()
        .map_err(told)?;
    for (subject, color) in shown(&rows) {
        for (gap, width) in GAP.into_iter().zip([3, 1]) {
            let of = rows.iter().filter(|row| row.key.subject == subject);
            let points: Vec<_> =
                of.filter_map(|row| Some((row.key.n as f64, row.get(gap)?))).collect();
            let line = chart
                .draw_series(LineSeries::new(points.clone(), color.stroke_width(width)))
                .map_err(told)?;
            if width > 1 {
                let style = color.stroke_width(width);
                line.label(subject.name(backend))
                    .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], style));
            }
            let dots =
                points.into_iter().map(|point| Circle::new(point, 2 + width, color.filled()));
            chart.draw_series(dots).map_err(told)?;
        }
    }
    legend(chart)?;
    area.present().map_err(told)?;
    Ok(true)
}

/// Pairs a second, a group of bars for each case.
fn rates(path: &Path, backend: Backend, rows: &[&Row]) -> Result<bool> {
    let plain = |row: &&&Row| {
        use Workload::{W1, W2, W3, W4};
        matches!(row.key.workload, W1 | W2 | W3 | W4) && row.key.variant == Variant::Plain
    };
    let rows: Vec<_> = rows.iter().filter(plain).collect();
    let mut groups: Vec<_> = rows.iter().map(|row| (row.key.workload, row.key.n)).collect();
    groups.dedup();
    groups.sort_unstable();
    groups.dedup();
    let Some(most) = rows.iter().filter_map(|row| row.get(PER_SECOND)).reduce(f64::max) else {
        return Ok(false);
    };

    let area = SVGBackend::new(path, SIZE).into_drawing_area();
    area.fill(&WHITE).map_err(told)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(format!("{backend}: pairs of lock and unlock a second"), ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(30)
        .y_label_area_size(60)
        .build_cartesian_2d(0.0..groups.len() as f64, 0.0..most * 1.35)
        .map_err(told)?;
    let label = |x: &f64| {
        let at = groups.get(*x as usize).filter(|_| (x.fract() - 0.5).abs() < 0.1);
        at.map_or_else(String::new, |(workload, n)| format!("{workload:?}, N = {n}"))
    };
    let mut mesh = chart.configure_mesh();
    mesh.disable_x_mesh()
        .light_line_style(WHITE)
        .x_labels(2 * groups.len() + 1)
        .x_label_formatter(&label)
        .y_label_formatter(&|rate| format!("{rate:.0}"));
    mesh.draw().map_err(told)?;
    let subjects = shown(&rows);
    let width = 0.76 / subjects.len() as f64;
    for (place, (subject, color)) in subjects.into_iter().enumerate() {
        let bars = rows.iter().filter(|row| row.key.subject == subject).filter_map(|row| {
            let group = groups.iter().position(|group| *group == (row.key.workload, row.key.n))?;
            let left = group as f64 + 0.12 + width * place as f64;
            let right = left + 0.92 * width;
            Some(Rectangle::new([(left, 0.0), (right, row.get(PER_SECOND)?)], color.filled()))
        });
        let drawn = chart.draw_series(bars.collect::<Vec<_>>()).map_err(told)?;
        drawn
            .label(subject.name(backend))
            .legend(move |(x, y)| Rectangle::new([(x, y - 4), (x + 12, y + 4)], color.filled()));
    }
    legend(chart)?;
    area.present().map_err(told)?;
    Ok(true)
}

/// Those that were measured, as a run may leave some out.
fn shown(rows: &[&&Row]) -> Vec<(Subject, RGBColor)> {
    let measured =
        |(subject, _): &(Subject, RGBColor)| rows.iter().any(|row| row.key.subject == *subject);
    SUBJECTS.into_iter().filter(measured).collect()
}

fn legend<'a, X, Y>(mut chart: ChartContext<'a, SVGBackend<'a>, Cartesian2d<X, Y>>) -> Result<()>
where
    X: Ranged<ValueType = f64> + ValueFormatter<f64>,
    Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let mut labels = chart.configure_series_labels();
    let labels = labels.position(SeriesLabelPosition::UpperRight).background_style(WHITE.mix(0.8));
    labels.border_style(BLACK.mix(0.3)).draw().map_err(told)
}
