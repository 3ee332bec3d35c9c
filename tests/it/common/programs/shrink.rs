//! The shortest part of a program that comes to something else than it should.

use std::time::Duration;

use super::{call::Call, drive::run};
use crate::common::Case;

/// For what may never come.
const PATIENCE: Duration = Duration::from_secs(3);

/// Leaves out whatever makes no difference: halves, quarters, and so on, down to single calls.
/// Returns what is left, and in what it differs.
pub(crate) async fn shrunk(t: &Case, program: Vec<Call>) -> (Vec<Call>, String) {
    let (mut program, mut difference) = (program, "it does not differ again".to_owned());
    let mut part = program.len();
    loop {
        let (mut from, mut is_shorter) = (0, false);
        while from < program.len() {
            let to = (from + part).min(program.len());
            let rest = [&program[..from], &program[to..]].concat();
            match run(t, &rest, PATIENCE).await {
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
