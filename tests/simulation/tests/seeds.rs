//! Ten seconds of seeds: what a mutant of the library has to survive (cargo-mutants).

use std::process::Command;

#[test]
fn seeds_hold() {
    let simulation = env!("CARGO_BIN_EXE_simulation");
    let run = Command::new(simulation)
        .args(["--seeds", "1500", "--no-shrink"])
        .output()
        .expect("the simulation can be run");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stdout));
}
