//! The common parts of the plots: size, head, and colours that are readable on light and dark
//! pages.

use std::{fs, path::Path};

use plotters::{coord::Shift, prelude::*};

use crate::{Result, task::Subject};

pub(crate) type Canvas<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// The width at which a README shows an image without scaling it.
pub(crate) const WIDTH: i32 = 800;
/// The height of the title and the line below it.
pub(crate) const HEAD: i32 = 68;
/// The smallest readable font size, and the maximum average width of a letter.
pub(crate) const SMALL: i32 = 13;
pub(crate) const LETTER: i32 = 8;

const PAGE: RGBColor = RGBColor(255, 255, 255);
/// Of all text and axes.
pub(crate) const INK: RGBColor = RGBColor(70, 79, 89);
/// Of lines in the background.
pub(crate) const FAINT: RGBColor = RGBColor(145, 152, 161);
const GREY: RGBColor = RGBColor(110, 119, 129);
const BLUE: RGBColor = RGBColor(9, 105, 218);
const ORANGE: RGBColor = RGBColor(188, 76, 0);
const GREEN: RGBColor = RGBColor(26, 127, 55);
const PURPLE: RGBColor = RGBColor(130, 80, 223);
const BROWN: RGBColor = RGBColor(140, 94, 0);

/// The replacements in a reader's dark mode.
const DARK: [(RGBColor, RGBColor); 8] = [
    (PAGE, RGBColor(13, 17, 23)),
    (INK, RGBColor(201, 209, 217)),
    (GREY, RGBColor(145, 152, 161)),
    (BLUE, RGBColor(88, 166, 255)),
    (ORANGE, RGBColor(240, 136, 62)),
    (GREEN, RGBColor(63, 185, 80)),
    (PURPLE, RGBColor(188, 140, 255)),
    (BROWN, RGBColor(210, 153, 34)),
];

/// The subjects in the plots, in this order.
pub(crate) const SUBJECTS: [(Subject, RGBColor); 11] = [
    (Subject::Distlock, BLUE),
    (Subject::Peer, ORANGE),
    (Subject::Go, GREEN),
    (Subject::Curator, GREEN),
    (Subject::UniqueKey, GREEN),
    (Subject::Often, PURPLE),
    (Subject::ShedLock, BROWN),
    (Subject::RedisPy, GREEN),
    (Subject::Rslock, BROWN),
    (Subject::Redisson, ORANGE),
    (Subject::Floor, GREY),
];

pub(crate) fn color(subject: Subject) -> RGBColor {
    SUBJECTS.iter().find(|(one, _)| *one == subject).map_or(INK, |(_, color)| *color)
}

/// A font of this size in pixels.
pub(crate) fn font<'a>(size: i32, color: RGBColor) -> TextStyle<'a> {
    let color = color.to_backend_color();
    // The library divides by this factor.
    TextStyle { color, ..TextStyle::from(("sans-serif", f64::from(size) * 1.24).into_font()) }
}

pub(crate) fn text(canvas: &Canvas, text: &str, at: (i32, i32), style: TextStyle) -> Result<()> {
    canvas.draw(&Text::new(text, at, style)).map_err(sendable)
}

/// Draws a plot of this height below its head: the title is its message, the second line its axes.
pub(crate) fn picture(
    path: &Path,
    title: &str,
    axes: &str,
    height: i32,
    draw: impl FnOnce(&Canvas) -> Result<()>,
) -> Result<()> {
    {
        let size = (WIDTH as u32, (HEAD + height) as u32);
        let canvas = SVGBackend::new(path, size).into_drawing_area();
        canvas.fill(&PAGE).map_err(sendable)?;
        text(&canvas, title, (14, 12), font(16, INK))?;
        text(&canvas, axes, (14, 40), font(SMALL, INK))?;
        draw(&canvas)?;
        canvas.present().map_err(sendable)?;
    }
    adapt(path)
}

/// Makes it readable on a dark page, too.
fn adapt(path: &Path) -> Result<()> {
    let picture = fs::read_to_string(path)?;
    let hex = |RGBColor(r, g, b)| format!("#{r:02X}{g:02X}{b:02X}");
    let rules = DARK.map(|(light, dark)| {
        let (light, dark) = (hex(light), hex(dark));
        format!("[fill=\"{light}\"]{{fill:{dark}}}[stroke=\"{light}\"]{{stroke:{dark}}}")
    });
    let style = format!("<style>@media(prefers-color-scheme:dark){{{}}}</style>", rules.join("\n"));
    let (head, rest) = picture.split_once('>').ok_or("no picture")?;
    fs::write(path, format!("{head}>\n{style}{rest}"))?;
    Ok(())
}

/// Formats a number with as many digits as are significant to a reader.
pub(crate) fn figure(value: f64) -> String {
    let digits = format!("{value:.0}");
    match digits.len() {
        _ if value < 0.995 => format!("{value:.2}"),
        _ if value < 9.95 => format!("{value:.1}"),
        length @ 4..=6 => format!("{},{}", &digits[..length - 3], &digits[length - 3..]),
        _ => digits,
    }
}

/// The library's errors cannot be sent between threads.
pub(crate) fn sendable(error: impl std::error::Error) -> Box<dyn std::error::Error + Send + Sync> {
    error.to_string().into()
}
