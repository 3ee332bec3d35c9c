//! Shortens a program that differs from the model.

use std::time::Duration;

use super::{call::Call, drive::run};
use crate::common::Case;

/// The time limit of calls that may never return.
const TIME_LIMIT: Duration = Duration::from_secs(3);

/// Leaves out calls that make no difference: halves, quarters, and so on, down to single calls.
/// Returns the remaining program and its difference.
pub(crate) async fn shrunk(t: &Case, program: Vec<Call>) -> (Vec<Call>, String) {
    let (mut program, mut difference) = (program, "the difference did not recur".to_owned());
    let mut part = program.len();
    loop {
        let (mut from, mut is_shorter) = (0, false);
        while from < program.len() {
            let to = (from + part).min(program.len());
            let rest = [&program[..from], &program[to..]].concat();
            match run(t, &rest, TIME_LIMIT).await {
                Err(other) => (program, difference, is_shorter) = (rest, other, true),
                Ok(()) => from = to,
            }
        }
        if part == 1 && !is_shorter {
            return (program, difference);
        }
        part = part.div_ceil(2);
    }
}
