//! The chart of a soak: a panel for each measure.

use std::{error::Error, path::Path};

use plotters::prelude::*;

use super::verdict::{MEASURES, Verdict};

const SIZE: (u32, u32) = (900, 170);

/// Draws samples, taken every `interval` seconds, into an SVG file.
pub(super) fn draw(
    path: &Path,
    title: &str,
    interval: f64,
    series: &[Vec<f64>],
    verdicts: &[Option<Verdict>],
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let panels = MEASURES.len();
    let area = SVGBackend::new(path, (SIZE.0, 40 + SIZE.1 * panels as u32)).into_drawing_area();
    area.fill(&WHITE).map_err(sendable)?;
    let area = area.titled(title, ("sans-serif", 20)).map_err(sendable)?;
    for (index, panel) in area.split_evenly((panels, 1)).iter().enumerate() {
        let (measure, samples, verdict) = (MEASURES[index], &series[index], verdicts[index]);
        let verdict_text = match verdict {
            Some(verdict) if verdict.flat => format!("flat ({:+.1})", verdict.growth),
            Some(verdict) => {
                format!("GROWS by {:.1}, more than {}", verdict.growth, verdict.tolerance)
            }
            None => "too short to judge".to_owned(),
        };
        let highest = samples.iter().copied().fold(1.0, f64::max);
        let minutes = samples.len() as f64 * interval / 60.0;
        let mut chart = ChartBuilder::on(panel)
            .caption(
                format!("{} {}: {verdict_text}", measure.name, measure.unit),
                ("sans-serif", 14),
            )
            .margin_right(20)
            .x_label_area_size(22)
            .y_label_area_size(70)
            .build_cartesian_2d(0.0..minutes, 0.0..highest * 1.15)
            .map_err(sendable)?;
        let mesh =
            chart.configure_mesh().disable_x_mesh().light_line_style(WHITE).y_labels(5).draw();
        mesh.map_err(sendable)?;
        let points =
            samples.iter().enumerate().map(|(n, value)| (n as f64 * interval / 60.0, *value));
        chart.draw_series(LineSeries::new(points, &BLUE)).map_err(sendable)?;
    }
    area.present().map_err(sendable)
}

/// plotters' errors cannot be sent between threads.
fn sendable(error: impl Error) -> Box<dyn Error + Send + Sync> {
    error.to_string().into()
}
