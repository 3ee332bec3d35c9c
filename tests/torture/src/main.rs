//! Torture: distlock under faults.
fn main() {}
