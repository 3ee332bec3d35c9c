//! Receives the library's signals as a production program does: a recorder for Prometheus, and a
//! log at level info, which is not written anywhere.

use std::{io, thread, time::Duration};

use metrics_exporter_prometheus::PrometheusBuilder;

use crate::Result;

/// How often the recorder aggregates.
const UPKEEP: Duration = Duration::from_secs(1);

pub(crate) fn listen() -> Result<()> {
    let recorder = PrometheusBuilder::new().set_buckets(&[0.001, 0.01, 0.1, 1.0])?;
    let recorder = recorder.install_recorder()?;
    // The first use calibrates the recorder's clock, which keeps a processor busy for some 20 ms:
    // once per process, and not part of the cost of a pair.
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
