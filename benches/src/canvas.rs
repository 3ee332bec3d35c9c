//! What the pictures have in common: their colours, on a page that is white or dark.

use std::{fs, path::Path};

use plotters::{coord::Shift, prelude::*};

use crate::{Result, task::Subject};

pub(crate) type Canvas<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Of all text and axes. A reader's dark mode shows [`LIGHT`] instead.
pub(crate) const INK: RGBColor = RGBColor(89, 99, 110);
const LIGHT: &str = "#9198A1";
/// Of what is to be seen through it.
pub(crate) const FAINT: RGBColor = RGBColor(145, 152, 161);

/// Whom the pictures show; each colour can be read on white and on black.
pub(crate) const SUBJECTS: [(Subject, RGBColor); 11] = [
    (Subject::Floor, RGBColor(140, 140, 140)),
    (Subject::Distlock, RGBColor(31, 119, 180)),
    (Subject::Peer, RGBColor(214, 96, 77)),
    (Subject::Go, RGBColor(84, 148, 60)),
    (Subject::Curator, RGBColor(84, 148, 60)),
    (Subject::UniqueKey, RGBColor(84, 148, 60)),
    (Subject::Often, RGBColor(204, 102, 25)),
    (Subject::ShedLock, RGBColor(230, 171, 2)),
    (Subject::RedisPy, RGBColor(84, 148, 60)),
    (Subject::Rslock, RGBColor(230, 171, 2)),
    (Subject::Redisson, RGBColor(214, 96, 77)),
];

pub(crate) fn color(subject: Subject) -> RGBColor {
    SUBJECTS.iter().find(|(one, _)| *one == subject).map_or(INK, |(_, color)| *color)
}

pub(crate) fn font<'a>(size: u32, color: RGBColor) -> TextStyle<'a> {
    let color = color.to_backend_color();
    TextStyle { color, ..TextStyle::from(("sans-serif", size).into_font()) }
}

/// Lets a picture without a background be read on a dark page.
pub(crate) fn adapt(path: &Path) -> Result<()> {
    let picture = fs::read_to_string(path)?;
    let RGBColor(r, g, b) = INK;
    let ink = format!("#{r:02X}{g:02X}{b:02X}");
    let dark = format!(
        "<style>@media(prefers-color-scheme:dark){{[fill=\"{ink}\"]{{fill:{LIGHT}}}\
         [stroke=\"{ink}\"]{{stroke:{LIGHT}}}}}</style>"
    );
    let (head, rest) = picture.split_once('>').ok_or("no picture")?;
    fs::write(path, format!("{head}>\n{dark}{rest}"))?;
    Ok(())
}

/// The library's errors cannot be sent between threads.
pub(crate) fn told(error: impl std::error::Error) -> Box<dyn std::error::Error + Send + Sync> {
    error.to_string().into()
}
