//! Listens to what the library tells, as a program in service does: a recorder for Prometheus, and
//! a log of what is at least information, which is written nowhere.

use std::{io, thread, time::Duration};

use metrics_exporter_prometheus::PrometheusBuilder;

use crate::Result;

/// How often the recorder puts together what it was told.
const UPKEEP: Duration = Duration::from_secs(1);

pub(crate) fn listen() -> Result<()> {
    let recorder = PrometheusBuilder::new().set_buckets(&[0.001, 0.01, 0.1, 1.0])?;
    let recorder = recorder.install_recorder()?;
    // The recorder's clock is calibrated when it is first asked, which keeps a processor busy for
    // some 20 ms: once in a process's life, and no part of what a pair costs.
    metrics::histogram!("warm").record(0.0);
    thread::spawn(move || {
        loop {
            thread::sleep(UPKEEP);
            recorder.run_upkeep();
        }
    });
    tracing_subscriber::fmt().with_writer(io::sink).init();
    Ok(())
}
