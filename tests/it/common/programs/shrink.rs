//! The shortest part of a program that comes to something else than it should.

use super::{call::Call, drive::run};
use crate::common::Case;

/// Leaves out whatever makes no difference: halves, quarters, and so on, down to single calls.
pub(crate) async fn shrunk(
    t: &Case,
    program: Vec<Call>,
    difference: String,
) -> (Vec<Call>, String) {
    let (mut program, mut difference) = (program, difference);
    let mut part = program.len().div_ceil(2);
    loop {
        let (mut from, mut is_shorter) = (0, false);
        while from < program.len() {
            let to = (from + part).min(program.len());
            let rest = [&program[..from], &program[to..]].concat();
            match run(t, &rest).await {
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
