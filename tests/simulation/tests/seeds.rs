//! Part of `docker/simulation`: the seeds that failed before, and 3,000 new ones.

use std::{
    process::Command,
    time::{SystemTime, UNIX_EPOCH},
};

/// Per contract.
const NEW: u64 = 1500;

#[test]
fn known_seeds_and_new_ones_pass() {
    let known = concat!(env!("CARGO_MANIFEST_DIR"), "/seeds.txt");
    // Different seeds every second.
    let first = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() << 16;
    let mut simulation = Command::new(env!("CARGO_BIN_EXE_simulation"));
    simulation.args(["--known", known, "--first", &first.to_string()]);
    simulation.args(["--seeds", &NEW.to_string()]);
    let output = simulation.output().expect("the simulation runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    print!("{text}");
}
