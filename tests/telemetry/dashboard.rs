//! The dashboard and the alerts use existing metrics.

use std::{collections::BTreeSet, fs};

use distlock_testkit::telemetry::Signal;

use super::listener::{Listener, all};

fn read(file: &str) -> String {
    fs::read_to_string(format!("{}/../{file}", env!("CARGO_MANIFEST_DIR"))).expect("a text")
}

/// Returns the metric names in a text. (Table names have the same prefix.)
fn named(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    words.filter(|word| word.starts_with("distlock_") && *word != "distlock_").collect()
}

/// Returns the names in `examples/metrics.rs` and in OpenTelemetry's collector.
fn names(kind: &str, name: &str, unit: &str) -> Vec<String> {
    let name = name.replace('.', "_");
    let name = if unit == "seconds" { format!("{name}_seconds") } else { name };
    match kind {
        "counter" => vec![format!("{name}_total")],
        "gauge" => vec![name],
        _ => ["bucket", "count", "sum"].map(|part| format!("{name}_{part}")).into(),
    }
}

#[tokio::test]
async fn dashboard_and_alerts_name_existing_metrics() {
    drop(Listener::new("dashboard").client().await);
    let described = all().into_iter().filter_map(|signal| match signal {
        Signal::Described(kind, name, unit) => Some(names(kind, &name, &unit)),
        _ => None,
    });
    let described: BTreeSet<_> = described.collect();
    let known: BTreeSet<_> = described.iter().flatten().map(String::as_str).collect();
    let dashboard = read("docs/ops/grafana-dashboard.json");
    let metrics = read("docs/ops/metrics.md");
    assert!(!named(&metrics).is_empty(), "no metric is named");
    // The text has this name as an example without the suffix of a histogram's part.
    let example = "distlock_acquire_duration_seconds";
    for name in named(&dashboard).union(&named(&metrics)) {
        assert!(known.contains(name) || *name == example, "there is no metric {name}");
    }
    for names in &described {
        let shown = names.iter().any(|name| named(&dashboard).contains(name.as_str()));
        assert!(shown, "the dashboard does not show {names:?}");
    }
}
