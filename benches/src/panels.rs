//! Charts side by side, one for each store, with the names at the ends of their lines.

use std::path::Path;

use plotters::{prelude::*, style::text_anchor};

use crate::{
    Result,
    canvas::{Canvas, FAINT, INK, adapt, font, told},
};

const WIDTH: u32 = 900;
const HEIGHT: u32 = 250;
/// Of the title, and of the line below.
const HEAD: u32 = 62;
/// Between two names, at least.
const LEADING: i32 = 13;

/// What all of them show.
pub(crate) struct Figure<'a> {
    /// The one thing that it says.
    pub(crate) title: &'a str,
    /// What is on the axes.
    pub(crate) axes: &'a str,
    pub(crate) across: &'a [f64],
    pub(crate) up: &'a [f64],
}

pub(crate) struct Panel {
    pub(crate) name: &'static str,
    pub(crate) lines: Vec<Line>,
}

pub(crate) struct Line {
    pub(crate) name: &'static str,
    pub(crate) color: RGBColor,
    pub(crate) points: Vec<(f64, f64)>,
}

pub(crate) fn draw(path: &Path, figure: &Figure, panels: &[Panel]) -> Result<()> {
    let columns = if panels.len() == 4 { 2 } else { 3 };
    let rows = panels.len().div_ceil(columns);
    let size = (WIDTH, HEAD + HEIGHT * rows as u32);
    {
        let canvas = SVGBackend::new(path, size).into_drawing_area();
        canvas.draw(&Text::new(figure.title, (14, 10), font(19, INK))).map_err(told)?;
        canvas.draw(&Text::new(figure.axes, (14, 36), font(14, INK))).map_err(told)?;
        let (_, below) = canvas.split_vertically(HEAD);
        for (place, panel) in below.split_evenly((rows, columns)).iter().zip(panels) {
            chart(&canvas, place, figure, panel)?;
        }
        canvas.present().map_err(told)?;
    }
    adapt(path)
}

fn chart(canvas: &Canvas, place: &Canvas, figure: &Figure, panel: &Panel) -> Result<()> {
    let (Some(left), Some(right)) = (figure.across.first(), figure.across.last()) else {
        return Err("nothing across".into());
    };
    let (Some(low), Some(high)) = (figure.up.first(), figure.up.last()) else {
        return Err("nothing up".into());
    };
    // Room for the names at the right end.
    let across = (left * 0.8..right * (right / left).powf(0.62)).log_scale();
    let across = across.with_key_points(figure.across.to_vec());
    let up = (*low..*high).log_scale().with_key_points(figure.up.to_vec());
    let mut chart = ChartBuilder::on(place)
        .caption(panel.name, font(16, INK))
        .margin_left(10)
        .margin_bottom(8)
        .x_label_area_size(24)
        .y_label_area_size(38)
        .build_cartesian_2d(across, up)
        .map_err(told)?;
    let mut mesh = chart.configure_mesh();
    mesh.axis_style(INK).label_style(font(13, INK));
    mesh.bold_line_style(FAINT.mix(0.3)).light_line_style(TRANSPARENT).disable_x_mesh();
    mesh.x_label_formatter(&short).y_label_formatter(&short).draw().map_err(told)?;
    let mut names = Vec::new();
    for line in &panel.lines {
        let inside = |(x, y): (f64, f64)| (x, y.clamp(*low, *high));
        let points: Vec<_> = line.points.iter().copied().map(inside).collect();
        let Some(end) = points.last() else { continue };
        names.push((chart.backend_coord(end), line));
        let stroke = line.color.stroke_width(2);
        chart.draw_series(LineSeries::new(points.clone(), stroke)).map_err(told)?;
        let dots = points.into_iter().map(|point| Circle::new(point, 3, line.color.filled()));
        chart.draw_series(dots).map_err(told)?;
    }
    names.sort_by_key(|((_, y), _)| *y);
    let mut at: Vec<i32> = names.iter().map(|((_, y), _)| *y).collect();
    spread(&mut at);
    for (((x, _), line), y) in names.into_iter().zip(at) {
        let style = font(13, line.color)
            .pos(text_anchor::Pos::new(text_anchor::HPos::Left, text_anchor::VPos::Center));
        canvas.draw(&Text::new(line.name, (x + 8, y), style)).map_err(told)?;
    }
    Ok(())
}

/// Moves what is in order apart, until no name lies on another one.
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
