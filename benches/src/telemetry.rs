//! Listens to what the library tells, as a program in service does: a recorder for Prometheus, and
//! a log of what is at least information, which is written nowhere.

use std::{io, thread, time::Duration};

use metrics_exporter_prometheus::PrometheusBuilder;

use crate::Result;

/// How often the recorder puts together what it was told.
const UPKEEP: Duration = Duration::from_secs(1);

pub(crate) fn listen() -> Result<()> {
    let metrics = PrometheusBuilder::new().set_buckets(&[0.001, 0.01, 0.1, 1.0])?;
    let metrics = metrics.install_recorder()?;
    thread::spawn(move || {
        loop {
            thread::sleep(UPKEEP);
            metrics.run_upkeep();
        }
    });
    tracing_subscriber::fmt().with_writer(io::sink).init();
    Ok(())
}
