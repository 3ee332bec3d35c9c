//! Randomness drawn from the seed.

use crate::scheduler;

pub(crate) fn fraction() -> f64 {
    scheduler::draw(|dice| dice.f64())
}

pub(crate) fn below(below: usize) -> usize {
    scheduler::draw(|dice| dice.usize(..below))
}

pub(crate) fn id() -> i64 {
    scheduler::draw(|dice| dice.i64(1..))
}

pub(crate) fn bits() -> [u8; 16] {
    scheduler::draw(|dice| dice.u128(..)).to_be_bytes()
}
