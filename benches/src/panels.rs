//! Charts side by side, with the names at the ends of their lines.

use std::path::Path;

use plotters::{prelude::*, style::text_anchor};

use crate::{
    Result,
    canvas::{Canvas, FAINT, HEAD, INK, LETTER, SMALL, WIDTH, font, picture, sendable, text},
};

const HEIGHT: i32 = 250;
/// The minimum distance between two names.
const LEADING: i32 = 15;
/// The margins left of the axis and right of the names.
const MARGINS: i32 = 60;
/// The distance between a line's end and its name.
const BESIDE: i32 = 8;

/// The common parts of all charts.
pub(crate) struct Figure<'a> {
    /// The message of the plot.
    pub(crate) title: &'a str,
    /// The axes.
    pub(crate) axes: &'a str,
    pub(crate) across: &'a [f64],
    pub(crate) up: &'a [f64],
}

pub(crate) struct Panel {
    pub(crate) name: String,
    pub(crate) lines: Vec<Line>,
}

pub(crate) struct Line {
    pub(crate) name: &'static str,
    pub(crate) color: RGBColor,
    /// Whether the plot is about this line.
    pub(crate) ours: bool,
    pub(crate) points: Vec<(f64, f64)>,
}

pub(crate) fn draw(path: &Path, figure: &Figure, panels: &[Panel]) -> Result<()> {
    let columns = if matches!(panels.len(), 2 | 4) { 2 } else { 3 };
    let rows = panels.len().div_ceil(columns);
    picture(path, figure.title, figure.axes, HEIGHT * rows as i32, |canvas| {
        let (_, below) = canvas.clone().split_vertically(HEAD);
        let width = WIDTH / columns as i32;
        for (place, panel) in below.split_evenly((rows, columns)).iter().zip(panels) {
            chart(canvas, place, width, figure, panel)?;
        }
        Ok(())
    })
}

fn chart(
    canvas: &Canvas,
    place: &Canvas,
    width: i32,
    figure: &Figure,
    panel: &Panel,
) -> Result<()> {
    let (Some(left), Some(right)) = (figure.across.first(), figure.across.last()) else {
        return Err("nothing across".into());
    };
    let (Some(low), Some(high)) = (figure.up.first(), figure.up.last()) else {
        return Err("nothing up".into());
    };
    // Room for the names at the right end.
    let longest = panel.lines.iter().map(|line| line.name.len()).max().unwrap_or_default();
    let room = BESIDE + LETTER * longest as i32;
    let share = f64::from(room) / f64::from(width - MARGINS - room);
    let across = (left * 0.8..right * (right / left).powf(share)).log_scale();
    let across = across.with_key_points(figure.across.to_vec());
    let up = (*low..*high).log_scale().with_key_points(figure.up.to_vec());
    let mut chart = ChartBuilder::on(place)
        .caption(&panel.name, font(15, INK))
        .margin_left(10)
        .margin_bottom(8)
        .x_label_area_size(26)
        .y_label_area_size(42)
        .build_cartesian_2d(across, up)
        .map_err(sendable)?;
    let mut mesh = chart.configure_mesh();
    mesh.axis_style(INK).label_style(font(SMALL, INK));
    mesh.bold_line_style(FAINT.mix(0.3)).light_line_style(TRANSPARENT).disable_x_mesh();
    mesh.x_label_formatter(&short).y_label_formatter(&short).draw().map_err(sendable)?;
    let mut names = Vec::new();
    for line in &panel.lines {
        let inside = |(x, y): (f64, f64)| (x, y.clamp(*low, *high));
        let points: Vec<_> = line.points.iter().copied().map(inside).collect();
        let Some(end) = points.last() else { continue };
        names.push((chart.backend_coord(end), line));
        let stroke = line.color.stroke_width(if line.ours { 3 } else { 2 });
        chart.draw_series(LineSeries::new(points.clone(), stroke)).map_err(sendable)?;
        let dots = points.into_iter().map(|point| Circle::new(point, 3, line.color.filled()));
        chart.draw_series(dots).map_err(sendable)?;
    }
    names.sort_by_key(|((_, y), _)| *y);
    let mut at: Vec<i32> = names.iter().map(|((_, y), _)| *y).collect();
    spread(&mut at);
    for (((x, _), line), y) in names.into_iter().zip(at) {
        let beside = text_anchor::Pos::new(text_anchor::HPos::Left, text_anchor::VPos::Center);
        text(canvas, line.name, (x + BESIDE, y), font(SMALL, line.color).pos(beside))?;
    }
    Ok(())
}

/// Moves sorted positions apart until no name overlaps another.
fn spread(at: &mut [i32]) {
    for _ in 0..50 {
        for place in 1..at.len() {
            let lacking = LEADING - (at[place] - at[place - 1]);
            if lacking > 0 {
                at[place - 1] -= lacking / 2;
                at[place] += lacking - lacking / 2;
            }
        }
    }
}

fn short(value: &f64) -> String {
    if *value >= 10_000.0 { format!("{:.0}k", value / 1000.0) } else { format!("{value}") }
}
