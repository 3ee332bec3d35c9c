//! Bars in groups, with a name before each bar and its figure behind it.

use std::path::Path;

use plotters::{
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};

use crate::{
    Result,
    canvas::{Canvas, HEAD, INK, LETTER, SMALL, WIDTH, figure, font, picture, sendable, text},
};

const COLUMNS: usize = 2;
/// The width of a group, and the height of its name.
const SIDE: i32 = WIDTH / COLUMNS as i32;
const TITLE: i32 = 28;
/// The thickness of a bar, and the distance to the next one.
const THICK: i32 = 15;
const PITCH: i32 = 20;
/// The space below a group.
const GROUP_GAP: i32 = 16;
const MARGIN: i32 = 14;
/// The width of the figure behind the longest bar.
const BEHIND: i32 = 58;

pub(crate) struct Group {
    pub(crate) name: String,
    pub(crate) bars: Vec<Bar>,
}

pub(crate) struct Bar {
    pub(crate) name: &'static str,
    pub(crate) color: RGBColor,
    pub(crate) value: f64,
    /// The minimum and the maximum.
    pub(crate) spread: Option<[f64; 2]>,
}

/// Each group has its own scale.
pub(crate) fn draw(path: &Path, title: &str, axes: &str, groups: &[Group]) -> Result<()> {
    let most = groups.iter().map(|group| group.bars.len() as i32).max().unwrap_or_default();
    let height = TITLE + PITCH * most + GROUP_GAP;
    let rows = groups.len().div_ceil(COLUMNS) as i32;
    let names = groups.iter().flat_map(|group| &group.bars).map(|bar| bar.name.len());
    let left = MARGIN + LETTER * names.max().unwrap_or_default() as i32 + 10;
    picture(path, title, axes, height * rows, |canvas| {
        for (place, one) in groups.iter().enumerate() {
            let (row, column) = ((place / COLUMNS) as i32, (place % COLUMNS) as i32);
            group(canvas, (SIDE * column, HEAD + height * row), left, one)?;
        }
        Ok(())
    })
}

fn group(canvas: &Canvas, (x, y): (i32, i32), left: i32, group: &Group) -> Result<()> {
    let beside = |color, side| font(SMALL, color).pos(Pos::new(side, VPos::Center));
    text(canvas, &group.name, (x + left, y + 4), font(15, INK))?;
    let end = |bar: &Bar| bar.spread.map_or(bar.value, |[_, most]| most.max(bar.value));
    let longest = group.bars.iter().map(end).fold(f64::MIN_POSITIVE, f64::max);
    let across =
        |value: f64| x + left + (f64::from(SIDE - left - BEHIND) * value / longest).round() as i32;
    for (place, bar) in group.bars.iter().enumerate() {
        let middle = y + TITLE + PITCH * place as i32 + PITCH / 2;
        text(canvas, bar.name, (x + left - 6, middle), beside(bar.color, HPos::Right))?;
        let (top, bottom) = (middle - THICK / 2, middle + THICK / 2);
        let area = [(x + left, top), (across(bar.value).max(x + left + 1), bottom)];
        canvas.draw(&Rectangle::new(area, bar.color.filled())).map_err(sendable)?;
        if let Some([least, most]) = bar.spread {
            let [least, most] = [least, most].map(across);
            let ends = [least, most].map(|at| vec![(at, middle - 3), (at, middle + 4)]);
            let whole = vec![(least, middle), (most, middle)];
            for line in ends.into_iter().chain([whole]) {
                canvas.draw(&PathElement::new(line, INK)).map_err(sendable)?;
            }
        }
        let behind = (across(end(bar)) + 6, middle);
        text(canvas, &figure(bar.value), behind, beside(bar.color, HPos::Left))?;
    }
    Ok(())
}
